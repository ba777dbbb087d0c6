"""Schemas of custom resources, compiled once for pruning, defaulting and validation.

An OpenAPI v3 schema in a definition is structural: its skeleton declares the fields, everything else constrains
values. `compiled` expects a schema that `kinds.custom_resource_definition` has accepted and never fails on such a
schema. References are not permitted, so a schema is a finite tree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from dray.api.wire import Tree

# Maximum number of cached compiled patterns of all schemas. A schema with more patterns compiles each of them again for
# every value, which takes ten times as long as a search. Most patterns have a small program and take 5 KiB; a short text
# can become thousands of instructions, which take a megabyte.
_SMALL_PATTERNS = 8192
_LARGE_PATTERNS = 256
_SMALL_PROGRAM = 100  # instructions


class ValidationRule(msgspec.Struct, frozen=True):
    """One rule in `x-kubernetes-validations`."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    optional_old: bool | None = None
    given_reason: str | None = None

    def as_go(self) -> msgspec.Raw:
        """Return the rule as Kubernetes prints it in error messages."""
        tree = {
            "Rule": self.rule,
            "Message": self.message,
            "MessageExpression": self.message_expression,
            "Reason": self.given_reason,
            "FieldPath": self.field_path,
            "OptionalOldSelf": self.optional_old,
        }
        return msgspec.Raw(msgspec.json.encode(tree))


class SchemaNode(msgspec.Struct, eq=False, weakref=True):
    """The schema of one position in an object."""

    schema: Tree
    type: str = ""
    properties: dict[str, SchemaNode] = {}
    additional: SchemaNode | None = None  # schema of the values of a map
    items: SchemaNode | None = None
    default: Any = UNSET
    nullable: bool = False
    preserves: bool = False  # unknown fields are preserved
    embedded: bool = False  # an embedded object, with apiVersion, kind and metadata
    int_or_string: bool = False
    required: tuple[str, ...] = ()
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    atomic: bool = False  # x-kubernetes-map-type is atomic
    rules: tuple[ValidationRule, ...] = ()
    pattern: str = ""
    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[SchemaNode, ...] = ()
    one_of: tuple[SchemaNode, ...] = ()
    negated: SchemaNode | None = None
    has_defaults: bool = False  # this node or a descendant has a default
    has_rules: bool = False
    has_keys: bool = False  # this node or a descendant is a list of type set or map
    has_embedded: bool = False  # this node or a descendant is an embedded object
    has_choices: bool = False  # this node has allOf, anyOf, oneOf or not
    constraints: Any = None  # constraints by type of value; set by `values` on first use


ANYTHING = SchemaNode({}, preserves=True)


def compiled(schema: Tree) -> SchemaNode:
    """Compile a schema. Returns its root node."""
    additional, items = schema.get("additionalProperties"), schema.get("items")
    node = SchemaNode(
        schema,
        schema.get("type", ""),
        {name: compiled(part) for name, part in (schema.get("properties") or {}).items()},
        compiled(additional) if isinstance(additional, dict) else ANYTHING if additional is True else None,
        compiled(items) if isinstance(items, dict) else None,
        schema.get("default", UNSET),
        bool(schema.get("nullable")),
        bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        bool(schema.get("x-kubernetes-embedded-resource")),
        bool(schema.get("x-kubernetes-int-or-string")),
        tuple(schema.get("required") or ()),
        schema.get("x-kubernetes-list-type", ""),
        tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        schema.get("x-kubernetes-map-type") == "atomic",
        tuple(map(_rule, schema.get("x-kubernetes-validations") or ())),
        schema.get("pattern", ""),
        tuple(map(compiled, schema.get("allOf") or ())),
        tuple(map(compiled, schema.get("anyOf") or ())),
        tuple(map(compiled, schema.get("oneOf") or ())),
        compiled(schema["not"]) if schema.get("not") else None,
    )
    below = [*node.properties.values(), *filter(None, (node.additional, node.items))]
    node.has_defaults = node.default is not UNSET or any(part.has_defaults for part in below)
    node.has_keys = node.list_type in ("set", "map") or any(part.has_keys for part in below)
    node.has_embedded = node.embedded or any(part.has_embedded for part in below)
    node.has_choices = bool(node.all_of or node.any_of or node.one_of or node.negated)
    node.has_rules = bool(node.rules) or any(part.has_rules for part in (*below, *node.all_of))
    return node


def _rule(tree: Tree) -> ValidationRule:
    return ValidationRule(
        tree.get("rule", ""),
        tree.get("message", ""),
        tree.get("messageExpression", ""),
        tree.get("reason") or "FieldValueInvalid",
        tree.get("fieldPath", ""),
        tree.get("optionalOldSelf"),
        tree.get("reason"),
    )


def pattern(text: str) -> Any:
    """Return the compiled regular expression. Matching takes linear time, but compiling can take long."""
    return _small_pattern(text) or _large_pattern(text)


@lru_cache(maxsize=_SMALL_PATTERNS)
def _small_pattern(text: str) -> Any:
    """Return the compiled pattern, or None if its program is large."""
    made = _compiled_pattern(text)
    return made if getattr(made, "programsize", 0) <= _SMALL_PROGRAM else None


@lru_cache(maxsize=_LARGE_PATTERNS)
def _large_pattern(text: str) -> Any:
    return _compiled_pattern(text)


def _compiled_pattern(text: str) -> Any:
    import re2  # loads a library, and most schemas have no pattern

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return re.compile(r"(?!)")  # never reached, because definitions with an invalid pattern are rejected
