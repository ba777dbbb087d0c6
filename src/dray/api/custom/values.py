"""Validates the values of a custom object against its schema, with the error messages of Kubernetes.

Every value is checked against its own constraints and those of `allOf`, `anyOf`, `oneOf` and `not`. For a string
or number only the first violation is reported; for objects and lists, the violations of all members are. A part
that an update does not change is not checked again, so a schema can become stricter than stored objects.
Alternatives multiply the work, so the steps of one validation are limited, results of alternatives are cached,
and the caller can interrupt. No clock is used, so the result is the same on every machine. CEL rules are not part
of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from dray.api.constraints.table import BoundError, KeepsBound, constraint, wrong_type
from dray.api.custom.structure import SchemaNode
from dray.api.errors import FieldError, duplicate, invalid, required, shown, unsupported
from dray.api.wire import Tree

Errors = Iterator[FieldError]
Interrupt = Callable[[], bool]  # called before alternatives; raises an exception to end the validation
NEVER: Interrupt = bool
MOST_STEPS = 2_000_000  # maximum steps of one validation; checking one value against one schema node is a step
_STEP_CHARACTERS = 512  # characters of a string that count as one additional step
_STEP_MEMBERS = 8  # members of a list, object, enum or `required` that count as one additional step
_LONG_STEPS = 64  # additional steps of one value from which the interrupt function is called
_REMEMBERED = 100_000  # maximum cached results of alternatives in one validation, to bound memory
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_KEYWORDS: Mapping[type, Mapping[str, str]] = {  # schema keywords and their names in the table of constraints
    str: {"maxLength": "longest", "minLength": "shortest", "pattern": "pattern", "format": "textFormat"},
    list: {"minItems": "fewestItems", "maxItems": "limit", "uniqueItems": "allDifferent"},
    dict: {"minProperties": "fewestProperties", "maxProperties": "limit"},
}
_CHAINED = ("longest", "shortest", "pattern")
_WHOLE = "<nil>"  # path that Kubernetes reports for violations of allOf, anyOf, oneOf and not


def type_name(value: Any) -> str:
    """Return the JSON type name of a value."""
    return "null" if value is None else _TYPES[type(value)]


class TooManySteps(Exception):
    """A validation needs more than MOST_STEPS steps."""


class _Judgement:
    """State of one validation: its steps so far, and cached results of alternatives."""

    __slots__ = ("_fits", "interrupt", "steps")

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt
        self.steps = 0
        self._fits: dict[tuple[int, type, Any], bool] = {}

    def spend(self, node: SchemaNode, value: Any) -> None:
        """Count the steps for checking a value against a node. Raises TooManySteps, and the exception of `interrupt`."""
        more = len(node.schema.get("enum") or ()) // _STEP_MEMBERS
        if isinstance(value, str):
            more += len(value) // _STEP_CHARACTERS
        elif isinstance(value, (dict, list)):
            more += (len(value) + len(node.required)) // _STEP_MEMBERS
        self.steps += 1 + more
        if self.steps > MOST_STEPS:
            raise TooManySteps
        if more >= _LONG_STEPS:
            self.interrupt()

    def fits(self, node: SchemaNode, value: Any) -> bool:
        """Return whether a value satisfies an alternative. Cached by value, for lists and objects by identity."""
        # The tree outlives the validation, so an id is not reused; the type distinguishes true from 1.
        key = id(node), type(value), id(value) if isinstance(value, (dict, list)) else value
        known = self._fits.get(key)
        if known is None:
            self.interrupt()
            known = next(_judged(node, value, "", UNSET, self), None) is None
            if len(self._fits) < _REMEMBERED:
                self._fits[key] = known
        return known


def value_faults(node: SchemaNode, value: Any, old: Any = UNSET, interrupt: Interrupt = NEVER) -> list[FieldError]:
    """Validate a value. Returns its field errors with paths relative to the value; empty if it is valid.

    `old` is the value that it replaces, or UNSET. If the validation takes too many steps, one error that says so is
    the only one. Raises the exception of `interrupt`.
    """
    try:
        found = [*_judged(node, value, "", old, _Judgement(interrupt))]
    except TooManySteps:
        text = f"validation needs more than {MOST_STEPS} steps: the schema has too many alternatives for this object"
        return [FieldError("FieldValueForbidden", _WHOLE, f"Forbidden: {text}")]
    repeated = [*_lists(node, value, "")]
    if repeated and old is not UNSET and any(_lists(node, old, "")):
        repeated = []
    return found + repeated


def _judged(node: SchemaNode, value: Any, path: str, old: Any, judgement: _Judgement) -> Errors:
    judgement.spend(node, value)
    if (value is None and node.nullable) or (old is not UNSET and value == old):
        return
    wanted = _wrong_type(node, value)
    if wanted:
        yield wrong_type(path, wanted, type_name(value))
        return
    if node.has_choices:
        judgement.interrupt()
        yield from _choices(node, value, path, judgement)
    yield from _broken(node, value, path)
    allowed = node.schema.get("enum")
    if allowed is not None and not any(same(value, option) for option in allowed):
        yield _not_supported(path, value, allowed)
    if isinstance(value, dict):
        yield from _members(node, value, path, old, judgement)
    elif isinstance(value, list) and node.items is not None:
        known = by_key(node, old)
        for index, item in enumerate(value):
            was = known.get(key_of(node, item), UNSET) if known else UNSET
            yield from _judged(node.items, item, f"{path}[{index}]", was, judgement)


def by_key(node: SchemaNode, old: Any) -> dict[bytes, Any]:
    """Return the previous elements of a list by key, or an empty dict if the list is not of type map."""
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {key_of(node, item): item for item in old}


def key_of(node: SchemaNode, item: Any) -> bytes:
    """Return the key of an element of a list of type map, as JSON with sorted names."""
    parts = {name: item[name] for name in node.map_keys if name in item} if isinstance(item, dict) else item
    return msgspec.json.encode(parts, order="sorted")


def same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; unlike in Python, true differs from 1."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right)


def _wrong_type(node: SchemaNode, value: Any) -> str:
    """Return the expected type if the value has another type, otherwise an empty string.

    The type is `integer,string` if both are permitted. Without a type in the schema, every value fits.
    """
    if node.int_or_string:
        right = isinstance(value, str) or _is_integer(value)
        return "" if right else "integer,string"
    if not node.type:
        return ""
    actual = type_name(value)
    if actual == node.type or (node.type == "number" and actual == "integer"):
        return ""
    return "" if node.type == "integer" and _is_integer(value) else node.type


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _not_supported(path: str, value: Any, allowed: list[Any]) -> FieldError:
    if isinstance(value, str) and all(isinstance(option, str) for option in allowed):
        return unsupported(path, value, allowed)
    options = ", ".join(shown(msgspec.json.encode(option).decode()) for option in allowed)
    text = f"Unsupported value: {shown(value)}: supported values: {options}"
    return FieldError("FieldValueNotSupported", path, text)


# Constraints of single values


class SchemaConstraint(NamedTuple):
    """One schema keyword: a row of the table of constraints, with its bound."""

    holds: KeepsBound
    error: BoundError
    bound: Any
    is_chained: bool  # only the first violated constraint among the chained ones is reported


def _constraints_of(node: SchemaNode) -> Mapping[type, tuple[SchemaConstraint, ...]]:
    """Return the constraints of a node by type of value; computed on first use."""
    if node.constraints is None:
        numbers = _made(_bounds(node.schema))
        node.constraints = {kind: _made(_of_keywords(node.schema, kind)) for kind in _KEYWORDS}
        node.constraints |= {int: numbers, float: numbers}
    found: Mapping[type, tuple[SchemaConstraint, ...]] = node.constraints
    return found


def _made(said: Iterator[tuple[str, Any]]) -> tuple[SchemaConstraint, ...]:
    return tuple(SchemaConstraint(*constraint(name), bound, name in _CHAINED) for name, bound in said)


def _of_keywords(schema: Tree, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the names and bounds of a schema's constraints for values of a type."""
    for keyword, name in _KEYWORDS[kind].items():
        bound = schema.get(keyword)
        if bound is not None and bound is not False and bound != "":  # zero is a valid bound
            yield name, bound


def _bounds(schema: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the names and bounds of a schema's constraints for numbers."""
    if schema.get("multipleOf"):
        yield "multipleOf", schema["multipleOf"]
    if schema.get("maximum") is not None:
        yield "below" if schema.get("exclusiveMaximum") else "notAbove", schema["maximum"]
    if schema.get("minimum") is not None:
        yield "above" if schema.get("exclusiveMinimum") else "notBelow", schema["minimum"]
    if schema.get("format") == "int32":
        yield "int32", None


def _broken(node: SchemaNode, value: Any, path: str) -> Errors:
    """Yield the errors of a value itself, without those of its members. Missing required members are included."""
    is_told = False
    for holds, error, bound, is_chained in _constraints_of(node).get(type(value), ()):
        if not (is_chained and is_told) and not holds(value, bound):
            yield error(value, bound, path)
            is_told = True
    if isinstance(value, dict):
        for name in node.required:
            if name not in value:
                yield required(f"{path}.{name}" if path else name)
        for name in ("apiVersion", "kind") if node.embedded else ():
            if not value.get(name):
                yield required(f"{path}.{name}", "must not be empty")


def _members(node: SchemaNode, value: Tree, path: str, old: Any, judgement: _Judgement) -> Errors:
    before = old if isinstance(old, dict) else {}
    for name in sorted(value):
        part = node.properties.get(name) or node.additional
        if part is not None:
            here = f"{path}.{name}" if path else name
            yield from _judged(part, value[name], here, before.get(name, UNSET), judgement)


def _choices(node: SchemaNode, value: Any, path: str, judgement: _Judgement) -> Errors:
    if node.any_of and not any(judgement.fits(option, value) for option in node.any_of):
        yield _choice(f"{shown(path)} must validate at least one schema (anyOf)")
        yield from _judged(node.any_of[0], value, path, UNSET, judgement)
    if node.one_of:
        count = sum(judgement.fits(option, value) for option in node.one_of)
        if count != 1:
            how_many = f"Found {count} valid alternatives" if count else "Found none valid"
            yield _choice(f"{shown(path)} must validate one and only one schema (oneOf). {how_many}")
            if not count:
                yield from _judged(node.one_of[0], value, path, UNSET, judgement)
    faults = [error for option in node.all_of for error in _judged(option, value, path, UNSET, judgement)]
    if faults:
        yield _choice(f"{shown(path)} must validate all the schemas (allOf)")
        yield from faults
    if node.negated is not None and judgement.fits(node.negated, value):
        yield _choice(f"{shown(path)} must not validate the schema (not)")


def _choice(text: str) -> FieldError:
    return invalid(_WHOLE, "", text)


# Lists of type set or map


def _lists(node: SchemaNode, value: Any, path: str) -> Errors:
    if not node.has_keys:
        return
    if isinstance(value, dict):
        for name in sorted(value):
            part = node.properties.get(name) or node.additional
            if part is not None:
                yield from _lists(part, value[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        if node.list_type in ("set", "map"):
            yield from _repeated(node, value, path)
        if node.items is not None:
            for index, item in enumerate(value):
                yield from _lists(node.items, item, f"{path}[{index}]")


def _repeated(node: SchemaNode, value: list[Any], path: str) -> Errors:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        if node.list_type == "map" and not isinstance(item, dict):
            continue
        text = key_of(node, item) if node.list_type == "map" else msgspec.json.encode(item, order="sorted")
        if text in seen:
            yield duplicate(f"{path}[{index}]", msgspec.json.decode(text))
        seen.add(text)
