"""Validation of the schemas of custom resources.

A schema must be structural (`structural`), its defaults must conform to it, and list and map types must be
consistent. Callers that can compile CEL check the rules.
"""

from __future__ import annotations

from typing import Any

from dray.api.custom import pruning, values
from dray.api.custom.structure import SchemaNode, compiled
from dray.api.errors import FieldError, forbidden, invalid, required, unsupported
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.validation.context import Context
from dray.api.validation.structural import structural, wrong_type
from dray.api.wire import Tree

DEEPEST = 64  # maximum nesting of a schema; Kubernetes has no limit, but reasonable schemas are far below this
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_META = ("apiVersion", "kind", "metadata")
_LIST, _MAP, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_LISTS = ("atomic", "set", "map")
_MAPS = ("atomic", "granular")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
# Fields permitted at the root of a schema with a status subresource.
_AT_ROOT = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items"),
    *("properties", "externalDocs", "example", _PRESERVE, "x-kubernetes-validations"),
)
_GO_NAMES = {_PRESERVE: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations"}


def schema(tree: Tree, path: Path, context: Context, has_status: bool = False) -> Errors:
    """Yield errors in the schema of one version."""
    if depth(tree) > DEEPEST:
        yield invalid(path, "", f"must not be nested deeper than {DEEPEST} levels")
        return
    if has_status:
        yield from _root(tree, path)
    if tree.get("nullable"):
        yield forbidden(path / "nullable", "nullable cannot be true at the root")
    nodes, sound = _Nodes(tree), False
    if _is_readable(tree):
        found = structural(tree, path) or [*_defaults(tree, path, nodes)]
        sound = not found
        yield from found
    found = [*_checks(tree, path), *_meta_checks(tree, path, root=True)]
    yield from found
    if sound:
        yield from _rules(tree, path, nodes, context, found)


def _root(tree: Tree, path: Path) -> Errors:
    if tree.get("type") not in (None, "", "object"):
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(path / "type", tree["type"], text)
    elif any(tree[name] not in (None, "", False, []) for name in tree.keys() - set(_AT_ROOT)):
        names = " ".join(_GO_NAMES.get(name, name[0].upper() + name[1:]) for name in _AT_ROOT)
        text = f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, tree, text)


class _Nodes:
    """Compiled nodes of a schema by their trees; all are compiled when the first default or rule needs one."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes: dict[int, SchemaNode] = {}

    def of(self, tree: Tree) -> SchemaNode:
        if not self._nodes:
            pending = [compiled(self._tree)]
            while pending:
                node = pending.pop()
                self._nodes[id(node.schema)] = node
                pending += [*node.properties.values(), *filter(None, (node.additional, node.items))]
        return self._nodes.get(id(tree)) or compiled(tree)


def depth(tree: Any) -> int:
    """Return the nesting depth of a tree in schema levels, two levels of JSON each.

    Iterative, and stops above the maximum depth, so a larger result is not exact.
    """
    level, found = [tree], 0
    while level and found <= 3 * DEEPEST:
        found += 1
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += [child for child in value.values() if isinstance(child, (dict, list))]
            elif isinstance(value, list):
                below += [child for child in value if isinstance(child, (dict, list))]
        level = below
    return found // 2


def _is_readable(tree: Tree) -> bool:
    """Return whether a schema can be structural: its skeleton has no references or other unsupported fields."""
    if any(tree.get(name) for name in _UNSUPPORTED) or isinstance(tree.get("items"), list):
        return False
    below = [*(tree.get("properties") or {}).values(), tree.get("items"), tree.get("additionalProperties")]
    return all(_is_readable(part) for part in below if isinstance(part, dict))


# Metadata of root and embedded objects


def _meta_checks(node: Tree, path: Path, root: bool = False) -> Errors:
    """Yield errors if apiVersion, kind or metadata of an object have defaults or contain embedded objects."""
    whole = root or node.get(_EMBEDDED)
    for name, part in sorted((node.get("properties") or {}).items()):
        here = path / "properties" % name
        if whole and name in _META:
            yield from _in_meta(part, here, f"in top-level {name}" if root else "")
        yield from _meta_checks(part, here)
    for name in ("additionalProperties", "items"):
        if isinstance(node.get(name), dict):
            yield from _meta_checks(node[name], path / name)


def _in_meta(node: Tree, path: Path, without: str) -> Errors:
    if node.get("default") is not None and without:
        yield forbidden(path / "default", f"must not be set {without}")
    if node.get(_EMBEDDED):
        yield forbidden(path / _EMBEDDED, "must not be used inside of resource meta")
    for name, part in sorted((node.get("properties") or {}).items()):
        yield from _in_meta(part, path / "properties" % name, without)
    if isinstance(node.get("items"), dict):
        yield from _in_meta(node["items"], path / "items", without)
    if isinstance(node.get("additionalProperties"), dict):
        inside = without or "inside additionalProperties applying to object metadata"
        yield from _in_meta(node["additionalProperties"], path / "additionalProperties", inside)


# Checks of every node


def _checks(node: Tree, path: Path) -> Errors:
    yield from _supported(node, path)
    additional, properties = node.get("additionalProperties"), node.get("properties") or {}
    if properties and additional is not None and additional is not True:
        yield forbidden(path / "additionalProperties", "additionalProperties and properties are mutual exclusive")
    elif additional is False:
        yield forbidden(path / "additionalProperties", "additionalProperties cannot be set to false")
    if isinstance(additional, dict):
        yield from _checks(additional, path / "additionalProperties")
    for name in sorted(properties):
        yield from _checks(properties[name], path / "properties" % name)
    if node.get("not"):
        yield from _checks(node["not"], path / "not")
    for name in ("allOf", "oneOf", "anyOf"):
        for index, option in enumerate(node.get(name) or ()):
            yield from _checks(option, path / name / index)
    if isinstance(node.get("items"), dict):
        yield from _checks(node["items"], path / "items")
    yield from _marks(node, path)
    yield from _plain_rules(node, path / "x-kubernetes-validations")


def _supported(node: Tree, path: Path) -> Errors:
    type_ = node.get("type")
    if type_ and type_ not in _TYPES:
        yield unsupported(path / "type", type_, _TYPES)
    for name in _UNSUPPORTED:
        if node.get(name):
            yield forbidden(path / name, f"{name} is not supported")
    if type_ == "null":
        yield forbidden(path / "type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(node.get("items"), list):
        yield forbidden(path / "items", "items must be a schema object and not an array")
    if node.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path / "uniqueItems", text)


def _marks(node: Tree, path: Path) -> Errors:
    type_, map_type = node.get("type") or "", node.get(_MAP)
    if node.get(_PRESERVE) is False:
        yield invalid(path / _PRESERVE, False, "must be true or undefined")
    if map_type is not None:
        if type_ != "object":
            yield from wrong_type(type_, path, f"must be object if {_MAP} is specified")
        if map_type not in _MAPS:
            yield unsupported(path / _MAP, map_type, _MAPS)
    yield from _list_marks(node, type_, path)


def _list_marks(node: Tree, type_: str, path: Path) -> Errors:
    list_type, items = node.get(_LIST), node.get("items")
    if list_type is not None:
        if type_ != "array":
            yield from wrong_type(type_, path, f"must be array if {_LIST} is specified")
        elif list_type == "set" and isinstance(items, dict):
            yield from _set_items(items, path / "items")
        if list_type not in _LISTS:
            yield unsupported(path / _LIST, list_type, _LISTS)
    if node.get(_KEYS) and list_type != "map":
        text = f"must be map if {_KEYS} is non-empty"
        yield required(path / _LIST, text) if list_type is None else invalid(path / _LIST, list_type, text)
    if list_type == "map":
        yield from _map_items(node, path)
    if list_type in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        yield forbidden(path / "items" / "nullable", f"cannot be nullable when {_LIST} is {list_type}")
    if list_type == "map" and isinstance(items, dict):
        yield from _keys_given(node, items, path / "items" / "properties")


def _set_items(items: Tree, path: Path) -> Errors:
    """Yield errors if the items of a set are not atomic."""
    text = f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "array" and items.get(_LIST) not in (None, "atomic"):
        yield invalid(path / _LIST, items[_LIST], text)
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield invalid(path / _MAP, items.get(_LIST), text)


def _map_items(node: Tree, path: Path) -> Errors:
    keys, items = node.get(_KEYS) or [], node.get("items")
    if not keys:
        yield required(path / _KEYS, f"must not be empty if {_LIST} is map")
    if items is None:
        yield required(path / "items", f"must have a schema if {_LIST} is map")
        return
    if not isinstance(items, dict):
        yield invalid(path / "items", items, f"must only have a single schema if {_LIST} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST} is map"
        yield invalid(path / "items" / "type", items.get("type") or "", text)
        return
    properties, seen = items.get("properties") or {}, set[str]()
    for key in keys:
        if key not in properties:
            yield invalid(path / _KEYS, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST} is map"
            yield invalid(path / "items" / "properties" % key / "type", items["type"], text)
        if key in seen:
            yield invalid(path / _KEYS, keys, "must not contain duplicate entries")
        seen.add(key)


def _keys_given(node: Tree, items: Tree, path: Path) -> Errors:
    """Yield errors if a key of a list of type map is neither required nor has a default."""
    properties = items.get("properties") or {}
    for key in node.get(_KEYS) or ():
        part = properties.get(key)
        if part is None:
            continue
        if part.get("default") is None and key not in (items.get("required") or ()):
            text = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(path % key / "default", text)
        if part.get("nullable"):
            text = f"this property is in {_KEYS}, so it cannot be nullable"
            yield forbidden(path % key / "nullable", text)


# Defaults


def _defaults(node: Tree, path: Path, nodes: _Nodes) -> Errors:
    if node.get("default") is not None:
        yield from _default(nodes.of(node), node["default"], path / "default")
    for name in sorted(node.get("properties") or {}):
        yield from _defaults(node["properties"][name], path / "properties" % name, nodes)
    for name in ("additionalProperties", "items"):
        if isinstance(node.get(name), dict):
            yield from _defaults(node[name], path / name, nodes)


def _default(node: SchemaNode, default: Any, path: Path) -> Errors:
    if pruning.pruned_value(node, default):
        yield invalid(path, default, "must not have unknown fields")
    for fault in values.value_faults(node, default):
        inner = f".{fault.field}" if fault.field and not fault.field.startswith("[") else fault.field
        yield type(fault)(fault.reason, f"{path}{inner}", fault.detail)


# Rules


def _rules(tree: Tree, path: Path, nodes: _Nodes, context: Context, found: list[FieldError]) -> Errors:
    """Yield errors in CEL rules, except for nodes in or below which other errors were found."""
    for fault in context.rule_faults(nodes.of(tree)):
        here = f"{path}{fault.field}"
        place = here.partition(".x-kubernetes-validations")[0]
        if not any(other.field.startswith(place) for other in found):
            yield FieldError(fault.reason, here, fault.detail)


def _plain_rules(node: Tree, path: Path) -> Errors:
    for index, rule in enumerate(node.get("x-kubernetes-validations") or ()):
        yield from _plain_rule(rule, path / index)


def _plain_rule(rule: Tree, path: Path) -> Errors:
    text, message, made = rule.get("rule") or "", rule.get("message") or "", rule.get("messageExpression") or ""
    if not text.strip():
        yield required(path / "rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(path / "message", message, "message must be non-empty if specified")
    elif _has_breaks(message.strip()):
        yield invalid(path / "message", message, "message must not contain line breaks")
    elif _has_breaks(text.strip()) and not message:
        yield required(path / "message", "message must be specified if rule contains line breaks")
    if made and not made.strip():
        yield required(path / "messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield unsupported(path / "reason", rule["reason"], _REASONS)
    field = rule.get("fieldPath") or ""
    if field and not field.strip():
        yield invalid(path / "fieldPath", field, "fieldPath must be non-empty if specified")
    if _has_breaks(field):
        yield invalid(path / "fieldPath", field, "fieldPath must not contain line breaks")


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
