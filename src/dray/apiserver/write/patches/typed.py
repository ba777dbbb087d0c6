"""Trees with their schema: which parts can have separate owners, and how trees are compared and merged.

An object or map is divided into its members, a list of type `map` into elements identified by their keys, a list of
type `set` into values; everything else is atomic and has one owner as a whole. Ownership is in `managed_fields`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from dray.api import schema
from dray.api.wire import Tree
from dray.apiserver.write.patches.field_sets import MEMBER, FieldSet, below, is_member, node, paths
from dray.apiserver.write.patches.tree import LISTS, JsonValue, kind, same

LEAF, STRUCT, MAP, KEYED, SET = "leaf", "struct", "map", "keyed", "set"
ANY = "any"  # in custom resources: an object if the value is one, otherwise a leaf
_OBJECTS = (STRUCT, MAP, ANY)
_TEMPLATE_BYTES = 8192  # maximum length of a spec whose fields are cached
_ZEROS: tuple[Any, ...] = (None, "", 0, False)


class FieldShape(msgspec.Struct, frozen=True, gc=False):
    """How the value of a field is divided.

    `always` means that the field exists even in an empty object, so creating it needs no owner.
    """

    kind: str = LEAF
    message: str = ""  # of a struct, or of the elements of a keyed list
    keys: tuple[tuple[str, Any], ...] = ()  # with their defaults
    value: str = ""  # type of a map's values
    always: bool = False


Shapes: TypeAlias = dict[str, FieldShape]
Keyed: TypeAlias = list[tuple[str, Any]]
_LEAF = FieldShape()
_ALWAYS_LEAF = FieldShape(always=True)
_ANYTHING = FieldShape(ANY)
_encode = msgspec.json.Encoder().encode


def shapes(message: str) -> Shapes:
    """Return the shapes of a message's members, cached as long as the message is registered."""
    return schema.derived(message, _shapes)


def _shapes(message: str) -> Shapes:
    return {name: _shape(field) for name, field in schema.message(message).fields.items()}


def _shape(field: schema.Field) -> FieldShape:
    """Return how the value of a schema field is divided into parts."""
    always = bool(field.always) and not field.pointer
    if field.is_list:
        if field.list_type == "map" and field.reference:
            return FieldShape(KEYED, field.reference, _keys(field), always=always)
        return FieldShape(SET, always=always) if field.list_type == "set" else _leaf(always)
    if field.map_type == "atomic":
        return _leaf(always)
    return _value_shape(field.type, always)


def _keys(field: schema.Field) -> tuple[tuple[str, Any], ...]:
    """Return the keys of a list of type `map` with their defaults, as pairs sorted by name."""
    known = schema.message(field.reference).fields
    return tuple((name, known[name].default) for name in sorted(field.keys))


@lru_cache(maxsize=8192)
def _value_shape(type_: str, always: bool = False) -> FieldShape:
    """Return the shape of a value of a schema type."""
    if type_.startswith("ref:"):
        atomic = schema.message(type_[4:]).map_type == "atomic"
        return _leaf(always) if atomic else FieldShape(STRUCT, type_[4:], always=always)
    if type_ == schema.ANY:
        return _ANYTHING
    return FieldShape(MAP, value=type_[1:], always=always) if type_.startswith("{") else _leaf(always)


def _leaf(always: bool) -> FieldShape:
    return _ALWAYS_LEAF if always else _LEAF


def _member_shape(shape: FieldShape, name: str) -> FieldShape:
    """Return the shape of a member of an object or map."""
    if shape.kind == ANY:
        return shape
    if shape.kind == STRUCT:
        return shapes(shape.message).get(name) or (_ANYTHING if schema.message(shape.message).open else _LEAF)
    return _value_shape(shape.value)


@lru_cache(maxsize=8192)
def root(message: str) -> FieldShape:
    """Return the shape of a whole object, given its schema name."""
    return FieldShape(STRUCT, message)


def divided(shape: FieldShape, value: JsonValue) -> bool:
    """Return whether a value is divided into parts. A value of the wrong type is not."""
    if shape.kind in _OBJECTS:
        return isinstance(value, dict)
    return shape.kind != LEAF and isinstance(value, LISTS)


def parts(shape: FieldShape, value: JsonValue) -> Keyed:
    """Return the parts of a divided value as (path element, value)."""
    if shape.kind in _OBJECTS:
        return [("f:" + name, child) for name, child in value.items()]
    if shape.kind == SET:
        return [("v:" + _encode(item).decode(), item) for item in value]
    return [(_key(shape, item), item) for item in value]


def _key(shape: FieldShape, item: JsonValue) -> str:
    """Return the path element of a list element, from its keys, such as `k:{"name":"c"}`.

    Keys without a value and without a default are left out.
    """
    found: Tree = {}
    if isinstance(item, dict):
        for name, default in shape.keys:
            value = item.get(name, default)
            if value is not None:
                found[name] = value
    return "k:" + _encode(found).decode()


def _part_shape(shape: FieldShape, element: str) -> FieldShape:
    """Return the shape of the part with a path element."""
    if shape.kind == KEYED:
        return root(shape.message)
    return _LEAF if shape.kind == SET else _member_shape(shape, element[2:])


# Sets


def applied_fields(shape: FieldShape, value: JsonValue) -> FieldSet:
    """Return the fields set by an applied tree: its leaves and its list elements."""
    if not divided(shape, value):
        return {}
    result: FieldSet = {}
    for element, child in parts(shape, value):
        inner = applied_fields(_part_shape(shape, element), child)
        result[element] = {MEMBER: {}, **inner} if inner and shape.kind == KEYED else inner
    return result


def all_fields(shape: FieldShape, value: JsonValue) -> FieldSet:
    """Return a node with everything at and below a field; every level is a member."""
    if not divided(shape, value):
        return {}
    children = {element: all_fields(_part_shape(shape, element), child) for element, child in parts(shape, value)}
    return {MEMBER: {}, **children} if children else {}


def _added(shape: FieldShape, value: JsonValue, in_empty: bool) -> FieldSet | None:
    """Return a node of the fields that come into existence with a value, or None if there are none.

    `in_empty` means that the parent exists even in an empty object.
    """
    there = in_empty and shape.always
    if not divided(shape, value):
        return None if there and value in _ZEROS else {}
    children: FieldSet = {}
    inside = there and shape.kind == STRUCT
    for element, child in parts(shape, value):
        part = _part_shape(shape, element)
        inner = {} if part is _LEAF else _added(part, child, inside)
        if inner is not None:
            children[element] = inner
    return node(not there, children)


def created_fields(message: str, value: Tree) -> FieldSet:
    """Return the fields that the creator of an object owns."""
    fields: FieldSet = {}
    for name, child in value.items():
        shape = shapes(message).get(name, _LEAF)
        found = _added_member(message, name, shape, child) if shape.kind == STRUCT else _added(shape, child, True)
        if found is not None:
            fields["f:" + name] = found
    return fields


def _added_member(message: str, name: str, shape: FieldShape, value: JsonValue) -> FieldSet | None:
    """Return the fields that a top-level member adds, cached by its encoding unless it is metadata or long."""
    if name != "metadata" and len(text := _encode(value)) <= _TEMPLATE_BYTES:
        return _added_again(message, name, text)
    return _added(shape, value, True)


@lru_cache(maxsize=512)
def _added_again(message: str, name: str, text: bytes) -> FieldSet | None:
    """Return the fields that a member adds.

    Cached, because thousands of objects from one template have the same spec.
    """
    return _added(shapes(message)[name], msgspec.json.decode(text), True)


class Comparison(msgspec.Struct, frozen=True):
    """Result of comparing two trees: sets of changed and removed fields."""

    changed: FieldSet  # new or different
    removed: FieldSet


def compare(message: str, old: Tree, new: Tree) -> Comparison:
    """Return the changed and removed fields from an old to a new object."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    _compare(root(message), old, new, changed, removed)
    return Comparison(changed, removed)


def _compare(shape: FieldShape, old: JsonValue, new: JsonValue, changed: FieldSet, removed: FieldSet) -> None:
    """Add the differences between two values to `changed` and `removed`."""
    before = dict(parts(shape, old))
    seen = set()
    for element, child in parts(shape, new):
        seen.add(element)
        was = before.get(element)
        if was is child or was == child:
            continue
        part = _part_shape(shape, element)
        if child is None:
            removed[element] = all_fields(part, was)
        elif was is None:
            added = _added(part, child, False)
            if added is not None:
                changed[element] = added
        elif divided(part, was) and divided(part, child):
            more: FieldSet = {}
            less: FieldSet = {}
            _compare(part, was, child, more, less)
            if more:
                changed[element] = more
            if less:
                removed[element] = less
        elif not same(was, child):
            changed[element] = {}
    for element, was in before.items():
        if element not in seen:
            removed[element] = all_fields(_part_shape(shape, element), was)


def with_named_members(shape: FieldShape, fields: FieldSet) -> FieldSet:
    """Return the set with all struct members on the way to its fields: they are removed with the last field in them."""
    result: FieldSet = {}
    for element, child in fields.items():
        if element == MEMBER:
            result[element] = child
            continue
        inner = with_named_members(_part_shape(shape, element), below(child))
        named = shape.kind == STRUCT and element.startswith("f:")
        result[element] = ({MEMBER: {}, **inner} if inner else {}) if named or is_member(child) else inner
    return result


# Trees


def problems(shape: FieldShape, value: JsonValue, path: str = "") -> Iterator[str]:
    """Yield why a tree cannot be applied: unknown fields, duplicate list elements, values of the wrong type."""
    if not divided(shape, value):
        if shape.kind not in (LEAF, ANY) and value is not None:
            yield f"{path}: expected {'map' if shape.kind in (STRUCT, MAP) else 'list'}, got {kind(value)}"
        return
    found = parts(shape, value)
    if shape.kind in (KEYED, SET):
        seen = set()
        for element, _ in found:
            if element in seen:
                yield f"{path}: duplicate entries for key {next(paths({element: {}}))}"
            seen.add(element)
    for element, child in found:
        here = next(paths({element: {}}, path))
        if shape.kind == STRUCT and element[2:] not in shapes(shape.message) and not _is_open(shape):
            yield f"{here}: field not declared in schema"
        else:
            yield from problems(_part_shape(shape, element), child, here)


def atomics(shape: FieldShape, value: JsonValue, path: str = "") -> Iterator[str]:
    """Yield the paths of lists and objects in an applied tree that are replaced as a whole."""
    if not divided(shape, value):
        if isinstance(value, (dict, *LISTS)):
            yield path
        return
    for index, (element, child) in enumerate(parts(shape, value)):
        here = f"{path}.{element[2:]}" if shape.kind in _OBJECTS else f"{path}[{index}]"
        yield from atomics(_part_shape(shape, element), child, here)


def _is_open(shape: FieldShape) -> bool:
    return schema.message(shape.message).open


def merged(shape: FieldShape, live: JsonValue, applied: JsonValue) -> JsonValue:
    """Return the live value with the applied value merged over it. Inputs are not changed."""
    if not divided(shape, live) or not divided(shape, applied):
        return applied
    if shape.kind in _OBJECTS:
        result = dict(live)
        for name, child in applied.items():
            result[name] = merged(_member_shape(shape, name), live[name], child) if name in live else child
        return result
    return list(_merged_list(shape, parts(shape, live), parts(shape, applied)))


def _merged_list(shape: FieldShape, live: Keyed, applied: Keyed) -> Iterator[JsonValue]:
    """Yield the applied elements in order, each merged with its live one; other live elements stay in between.

    `live` and `applied` are pairs of element key and value.
    """
    old, new = dict(live), dict(applied)
    shared = iter([element for element in new if element in old])
    wanted = next(shared, None)
    place = 0
    for element, item in new.items():
        while place < len(live) and live[place][0] != wanted:
            if live[place][0] not in new:
                yield live[place][1]
            place += 1
        if element in old:
            yield merged(_part_shape(shape, element), old[element], item)
            wanted = next(shared, None)
        else:
            yield item
    yield from (item for element, item in live[place:] if element not in new)


def without(shape: FieldShape, value: JsonValue, fields: FieldSet) -> JsonValue:
    """Return the value without the fields of a set."""
    if not fields or not divided(shape, value):
        return value
    kept: Keyed = []
    for element, child in parts(shape, value):
        chosen = fields.get(element)
        if chosen is None:
            kept.append((element, child))
        elif not is_member(chosen):
            kept.append((element, without(_part_shape(shape, element), child, chosen)))
    return _assembled(shape, kept)


def _assembled(shape: FieldShape, found: Sequence[tuple[str, Any]]) -> JsonValue:
    """Return a container made of parts, the reverse of `parts`."""
    if shape.kind in _OBJECTS:
        return {element[2:]: child for element, child in found}
    return [child for _, child in found]
