"""JSON patch (RFC 6902): a list of operations on paths.

Every operation copies only the containers on its path, so the answer shares all other parts with the original.
The number of operations and the size of what `copy` may add are bounded, since a short patch could otherwise grow an
object beyond all measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from dray.api.errors import TooLarge
from dray.apiserver.patches.rejection import BadPatch, PatchRejected
from dray.apiserver.patches.tree import LISTS, Object, Tree, kind, same

MAX_OPERATIONS = 10_000  # as in Kubernetes
MAX_COPIED_BYTES = 3 * 1024 * 1024  # the size of the largest request body

_MISSING = object()
_NEEDS_VALUE = ("add", "replace", "test")
_NEEDS_FROM = ("move", "copy")

Pointer: TypeAlias = list[str]
Edit: TypeAlias = Callable[[Any, str], Any]  # (parent container, last token) -> new parent


def json_patch(tree: Object, operations: Tree) -> Object:
    """The tree with the operations applied in order, all or none.

    >>> json_patch({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}])
    {'a': [1, 2, 3]}
    """
    if not isinstance(operations, LISTS):
        raise BadPatch(f"a JSON patch is a list of operations, not a {kind(operations)}")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    copied = 0
    result: Tree = tree
    for operation in operations:
        name, path = _checked(operation)
        if name in _NEEDS_FROM:
            source = _pointer(operation["from"])
            value = _get(result, source)
            if name == "move":
                if path[: len(source)] == source and path != source:
                    raise PatchRejected(f"move of {operation['from']!r} into itself")
                result = _edited(result, source, _remove)
            else:
                copied += len(msgspec.json.encode(value))
                if copied > MAX_COPIED_BYTES:
                    raise PatchRejected(f"copy operations add more than {MAX_COPIED_BYTES} bytes")
            result = _add(result, path, value)
        else:
            result = _APPLY[name](result, path, operation.get("value"))
    if not isinstance(result, dict):
        raise PatchRejected(f"the patched document is a {kind(result)}, not an object")
    return result


def _checked(operation: Tree) -> tuple[str, Pointer]:
    if not isinstance(operation, dict):
        raise BadPatch(f"an operation is an object, not a {kind(operation)}")
    name = operation.get("op")
    if not isinstance(name, str) or name not in (*_APPLY, *_NEEDS_FROM):
        raise PatchRejected(f"unexpected kind of operation: {name!r}")
    if name in _NEEDS_VALUE and "value" not in operation:
        raise PatchRejected(f"operation {name} needs a value")
    for member in ("path", "from") if name in _NEEDS_FROM else ("path",):
        if not isinstance(operation.get(member), str):
            raise PatchRejected(f"operation {name} needs a {member}")
    return name, _pointer(operation["path"])


def _pointer(path: str) -> Pointer:
    if not path:
        return []
    if not path.startswith("/"):
        raise PatchRejected(f"path {path!r} does not start with a slash")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _index(token: str, size: int) -> int:
    """The position that a token names in a list of some size, which is the highest allowed."""
    if token == "-":
        return size
    if not token.isascii() or not token.isdigit() or (token[0] == "0" and token != "0") or len(token) > 9:
        raise PatchRejected(f"{token!r} is not an index")
    index = int(token)
    if index > size:
        raise PatchRejected(f"index {index} is out of bounds")
    return index


def _child(container: Tree, token: str) -> Tree:
    """What a token leads to, or _MISSING."""
    if isinstance(container, dict):
        return container.get(token, _MISSING)
    if isinstance(container, LISTS):
        index = _index(token, len(container))
        return container[index] if index < len(container) else _MISSING
    return _MISSING


def _get(tree: Tree, pointer: Pointer) -> Tree:
    for token in pointer:
        tree = _child(tree, token)
        if tree is _MISSING:
            raise PatchRejected(f"there is nothing at {'/'.join(pointer)!r}")
    return tree


def _edited(tree: Tree, pointer: Pointer, edit: Edit) -> Tree:
    """A copy of the path down to the pointer's parent, which the edit replaces."""
    if not pointer:
        raise PatchRejected("the whole document cannot be removed")
    parents = [tree]
    for token in pointer[:-1]:
        child = _child(parents[-1], token)
        if not isinstance(child, (dict, *LISTS)):
            raise PatchRejected(f"there is no container at {token!r}")
        parents.append(child)
    fresh = edit(parents.pop(), pointer[-1])
    for token in reversed(pointer[:-1]):
        fresh = _with(parents.pop(), token, fresh)
    return fresh


def _with(container: Tree, token: str, value: Tree) -> Tree:
    """A copy of the container with an existing member replaced."""
    if isinstance(container, dict):
        return {**container, token: value}
    copy = list(container)
    copy[_index(token, len(copy) - 1)] = value
    return copy


def _remove(container: Tree, token: str) -> Tree:
    if _child(container, token) is _MISSING:
        raise PatchRejected(f"there is nothing to remove at {token!r}")
    if isinstance(container, dict):
        return {key: value for key, value in container.items() if key != token}
    index = _index(token, len(container) - 1)
    return [*container[:index], *container[index + 1 :]]


def _add(tree: Tree, pointer: Pointer, value: Tree) -> Tree:
    def insert(container: Tree, token: str) -> Tree:
        if isinstance(container, dict):
            return {**container, token: value}
        if not isinstance(container, LISTS):
            raise PatchRejected(f"nothing can be added to a {kind(container)}")
        index = _index(token, len(container))
        return [*container[:index], value, *container[index:]]

    return _edited(tree, pointer, insert) if pointer else value


def _replace(tree: Tree, pointer: Pointer, value: Tree) -> Tree:
    _get(tree, pointer)
    return _edited(tree, pointer, lambda container, token: _with(container, token, value)) if pointer else value


def _test(tree: Tree, pointer: Pointer, value: Tree) -> Tree:
    try:
        found = _get(tree, pointer)
    except PatchRejected:
        found = None  # a missing member equals null here, as in the library that Kubernetes uses
    if not same(found, value):
        raise PatchRejected(f"test of {'/'.join(pointer)!r} failed")
    return tree


_APPLY: dict[str, Callable[[Tree, Pointer, Tree], Tree]] = {
    "add": _add,
    "remove": lambda tree, pointer, _: _edited(tree, pointer, _remove),
    "replace": _replace,
    "test": _test,
}
