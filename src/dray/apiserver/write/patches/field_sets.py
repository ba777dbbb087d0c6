"""Sets of fields in the format of managedFields: nested objects.

`f:name` is a member of an object, `k:{…}` an element of a list identified by its keys, `v:…` a value of a set. `{}`
means that the path itself belongs to the set; if the path also has children, `.` means that. All operations return
new sets that share parts with their inputs; a set is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

FieldSet: TypeAlias = dict[str, Any]  # nested: each value is a FieldSet

MEMBER = "."


def is_member(node: FieldSet) -> bool:
    """Return whether the path that leads to a node belongs to the set."""
    return not node or MEMBER in node


def below(node: FieldSet) -> FieldSet:
    """Return the children of a node, without the mark `.` that the node itself is a member."""
    return {key: child for key, child in node.items() if key != MEMBER} if MEMBER in node else node


def node(member: bool, children: FieldSet) -> FieldSet | None:
    """Return a node, or None if it is neither a member nor has children."""
    if not children:
        return {} if member else None
    return {MEMBER: {}, **children} if member else children


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in either set.

    >>> union({"f:a": {}, "f:b": {"f:c": {}}}, {"f:b": {}})
    {'f:a': {}, 'f:b': {'.': {}, 'f:c': {}}}
    """
    if not left or left is right:
        return right
    result = dict(left)
    for key, other in right.items():
        mine = result.get(key)
        if mine is None:
            result[key] = other
        elif mine is not other:
            member = is_member(mine) or is_member(other)
            result[key] = node(member, union(below(mine), below(other)))
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of `left` that are not in `right`.

    >>> difference({"f:a": {}, "f:b": {".": {}, "f:c": {}}}, {"f:b": {"f:c": {}}})
    {'f:a': {}, 'f:b': {}}
    """
    if not right:
        return left
    result: FieldSet = {}
    for key, mine in left.items():
        other = right.get(key)
        if other is None:
            result[key] = mine
            continue
        kept = node(is_member(mine) and not is_member(other), difference(below(mine), below(other)))
        if kept is not None:
            result[key] = kept
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in both sets.

    >>> intersection({"f:a": {}, "f:b": {".": {}, "f:c": {}}}, {"f:b": {"f:c": {}}, "f:d": {}})
    {'f:b': {'f:c': {}}}
    """
    result: FieldSet = {}
    for key, mine in left.items():
        other = right.get(key)
        if other is None:
            continue
        kept = node(is_member(mine) and is_member(other), intersection(below(mine), below(other)))
        if kept is not None:
            result[key] = kept
    return result


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a set as Kubernetes prints them in conflicts.

    >>> list(paths({"f:spec": {'k:{"name":"c"}': {".": {}, "f:image": {}}}}))
    ['.spec[name="c"]', '.spec[name="c"].image']
    """
    for key, child in sorted(fields.items()):
        path = prefix + _element(key)
        if is_member(child):
            yield path
        yield from paths(below(child), path)


def _element(key: str) -> str:
    """Return one path element as text, such as `.spec` or `[name="c"]`."""
    form, text = key[:2], key[2:]
    if form == "f:":
        return f".{text}"
    if form == "k:":
        keys = msgspec.json.decode(text)
        return "[" + ",".join(f"{name}={msgspec.json.encode(keys[name]).decode()}" for name in sorted(keys)) + "]"
    return f"[={text}]"
