"""JSON patch (RFC 6902): a list of operations on paths.

A container is copied once, when the first operation changes it, and changed in place after that. So the result shares
all other parts with the original, and ten thousand operations on a large map cost one copy of it. `copy` inserts the
same value in a second place, and a container is copied before a later change; shared containers are separated at the
end, when their total size is known. The number of operations and their effort (`effort`) are limited, because a short
patch could otherwise grow an object without bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from dray.api.errors import TooLarge
from dray.api.wire import Tree
from dray.apiserver.write.patches.effort import DEEPEST, Effort
from dray.apiserver.write.patches.rejection import BadPatch, PatchRejected, TestFailed
from dray.apiserver.write.patches.tree import LISTS, JsonValue, kind, same

MAX_OPERATIONS = 10_000  # as in Kubernetes
MAX_COPIED_BYTES = 3 * 1024 * 1024  # size of the largest request body, as in Kubernetes

_PLAIN_BYTES = 4  # approximate size of a number, boolean or null
_MISSING = object()
_NEEDS_VALUE = ("add", "replace", "test")
_NEEDS_FROM = ("move", "copy")
_OPERATIONS = ("remove", *_NEEDS_VALUE, *_NEEDS_FROM)

Pointer: TypeAlias = list[str]
PathEdit: TypeAlias = Callable[[Any, str], None]  # (parent container that may be changed, last token)


def json_patch(tree: Tree, operations: JsonValue, effort: Effort | None = None) -> Tree:
    """Return the tree with all operations applied in order.

    Raises BadPatch, PatchRejected, TooLarge or TakesLong; then nothing is applied.

    >>> json_patch({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}])
    {'a': [1, 2, 3]}
    """
    if not isinstance(operations, LISTS):
        raise BadPatch(f"a JSON patch is a list of operations, not a {kind(operations)}")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = _Document(tree, effort or Effort())
    for operation in operations:
        document.apply(operation)
    if not isinstance(document.root, dict):
        raise PatchRejected(f"the patched document is a {kind(document.root)}, not an object")
    return document.unshared()


class _Size(NamedTuple):
    """Size of a value: contained values, bytes as JSON, depth.

    `value` keeps a reference, so that no later value gets the same identity.
    """

    value: JsonValue
    values: int
    bytes: int
    depth: int


class _Document:
    """A tree while operations are applied.

    `_own` has, by identity, the containers that only this document references.
    """

    def __init__(self, root: JsonValue, effort: Effort) -> None:
        self.root = root
        self._effort = effort
        self._own: dict[int, JsonValue] = {}
        self._sizes: dict[int, _Size] = {}  # sizes of containers that do not change any more
        self._copied = 0

    def apply(self, operation: JsonValue) -> None:
        """Apply one operation. Raises BadPatch, PatchRejected or, for a failed `test`, TestFailed."""
        name, path = _checked(operation)
        if name in _NEEDS_FROM:
            self._add(path, self._taken(name, operation["from"], path))
        elif name == "add":
            self._add(path, operation["value"])
        elif name == "remove":
            self._edit(path, self._remove)
        elif name == "replace":
            self._replace(path, operation["value"])
        else:
            self._test(path, operation["value"])

    def _taken(self, name: str, text: str, path: Pointer) -> JsonValue:
        """Return the value that a move or copy inserts. A move removes the value from its source.

        `name` is the operation, `text` the source and `path` the target. Raises PatchRejected if a value is moved
        into itself or the copied values are too large.
        """
        source = _pointer(text)
        value = _get(self.root, source)
        if name == "move":
            if path[: len(source)] == source and path != source:
                raise PatchRejected(f"move of {text!r} into itself")
            self._edit(source, self._remove)
            return value
        size = self._measured(value)
        self._copied += size.bytes
        if self._copied > MAX_COPIED_BYTES:
            raise PatchRejected(f"copy operations add more than {MAX_COPIED_BYTES} bytes")
        try:
            self._effort.copy(size.values, size.bytes)
        except TooLarge as error:
            raise PatchRejected("copy operations add more values than an object may have") from error
        self._own.clear()  # both places now share the value
        return value

    def _measured(self, value: JsonValue, level: int = 0) -> _Size:
        """Return the size of a value that does not change any more.

        Each container is visited once, however often it occurs. Raises PatchRejected if the value is nested too
        deeply.
        """
        if not isinstance(value, (dict, *LISTS)):
            return _Size(value, 1, len(value) + 2 if isinstance(value, str) else _PLAIN_BYTES, 0)
        size = self._sizes.get(id(value))
        if level + (1 if size is None else size.depth) > DEEPEST:
            raise PatchRejected(f"a copied value is nested deeper than {DEEPEST} levels")
        if size is None:
            self._effort.measure(len(value))
            names = sum(map(len, value)) + 4 * len(value) if isinstance(value, dict) else len(value)
            values, length, depth = 1, 2 + names, 0
            for child in value.values() if isinstance(value, dict) else value:
                _, more, longer, below = self._measured(child, level + 1)
                values, length, depth = values + more, length + longer, max(depth, below)
            size = self._sizes[id(value)] = _Size(value, values, length, depth + 1)
        return size

    def unshared(self) -> Tree:
        """Return the document, which must be an object, with no container occurring twice."""
        found: Tree = self.root
        if self._copied:
            self._measured(found)  # raises if it is nested too deeply
            found = msgspec.json.decode(msgspec.json.encode(found))
        return found

    def _add(self, pointer: Pointer, value: JsonValue) -> None:
        """Insert a value at a pointer, as the operation `add` does."""

        def insert(container: JsonValue, token: str) -> None:
            if isinstance(container, dict):
                container[token] = value
            else:
                place = _index(token, len(container))
                self._effort.shift(len(container) - place)
                container.insert(place, value)

        self._edit(pointer, insert) if pointer else self._become(value)

    def _remove(self, container: JsonValue, token: str) -> None:
        """Remove a member or element from a container. Raises PatchRejected if it does not exist."""
        if _child(container, token) is _MISSING:
            raise PatchRejected(f"there is nothing to remove at {token!r}")
        if isinstance(container, dict):
            del container[token]
            return
        place = _index(token, len(container) - 1)
        self._effort.shift(len(container) - place)
        del container[place]

    def _replace(self, pointer: Pointer, value: JsonValue) -> None:
        """Replace the value at a pointer. Raises PatchRejected if it does not exist."""

        def put(container: JsonValue, token: str) -> None:
            container[token if isinstance(container, dict) else _index(token, len(container) - 1)] = value

        _get(self.root, pointer)
        self._edit(pointer, put) if pointer else self._become(value)

    def _test(self, pointer: Pointer, value: JsonValue) -> None:
        """Raise TestFailed unless the value at the pointer equals `value`. A missing value counts as null."""
        try:
            found = _get(self.root, pointer)
        except PatchRejected:
            found = None  # a missing member equals null here, as in the library that Kubernetes uses
        if not same(found, value):
            raise TestFailed(f"test of {'/'.join(pointer)!r} failed")

    def _become(self, value: JsonValue) -> None:
        """Replace the whole document."""
        self.root = value

    def _edit(self, pointer: Pointer, edit: PathEdit) -> None:
        """Apply `edit` to the container of the pointer's last token, after copying all shared containers on the path.

        Raises PatchRejected if the pointer is empty or there is no container on its path.
        """
        if not pointer:
            raise PatchRejected("the whole document cannot be removed")
        self.root = container = self._owned(self.root)
        for token in pointer[:-1]:
            child = _child(container, token)
            if not isinstance(child, (dict, *LISTS)):
                raise PatchRejected(f"there is no container at {token!r}")
            own = self._owned(child)
            if own is not child:
                container[token if isinstance(container, dict) else _index(token, len(container) - 1)] = own
            container = own
        edit(container, pointer[-1])

    def _owned(self, container: JsonValue) -> JsonValue:
        """Return the container if only this document references it, else a shallow copy.

        Raises PatchRejected for a value that is not a container.
        """
        if id(container) in self._own:
            return container
        if not isinstance(container, (dict, *LISTS)):
            raise PatchRejected(f"nothing can be added to a {kind(container)}")
        self._effort.own(len(container))
        own = dict(container) if isinstance(container, dict) else list(container)
        self._own[id(own)] = own
        return own


def _checked(operation: JsonValue) -> tuple[str, Pointer]:
    """Return the name and path of an operation. Raises BadPatch or PatchRejected if it is malformed."""
    if not isinstance(operation, dict):
        raise BadPatch(f"an operation is an object, not a {kind(operation)}")
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise PatchRejected(f"unexpected kind of operation: {name!r}")
    if name in _NEEDS_VALUE and "value" not in operation:
        raise PatchRejected(f"operation {name} needs a value")
    for member in ("path", "from") if name in _NEEDS_FROM else ("path",):
        if not isinstance(operation.get(member), str):
            raise PatchRejected(f"operation {name} needs a {member}")
    return name, _pointer(operation["path"])


def _pointer(path: str) -> Pointer:
    """Return the tokens of a JSON pointer; [] for an empty path, which is the whole document.

    Raises PatchRejected if another path does not start with a slash.
    """
    if not path:
        return []
    if not path.startswith("/"):
        raise PatchRejected(f"path {path!r} does not start with a slash")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def _index(token: str, size: int) -> int:
    """Return the list index that a token names; `-` gives `size`.

    Raises PatchRejected above `size` or if it is no index.
    """
    if token == "-":
        return size
    if not token.isascii() or not token.isdigit() or (token[0] == "0" and token != "0") or len(token) > 9:
        raise PatchRejected(f"{token!r} is not an index")
    index = int(token)
    if index > size:
        raise PatchRejected(f"index {index} is out of bounds")
    return index


def _child(container: JsonValue, token: str) -> JsonValue:
    """Return the member or element that a token names, or _MISSING if there is none.

    Raises PatchRejected if the token for a list is not a valid index.
    """
    if isinstance(container, dict):
        return container.get(token, _MISSING)
    if isinstance(container, LISTS):
        index = _index(token, len(container))
        return container[index] if index < len(container) else _MISSING
    return _MISSING


def _get(tree: JsonValue, pointer: Pointer) -> JsonValue:
    """Return the value at a pointer. Raises PatchRejected if it does not exist."""
    for token in pointer:
        tree = _child(tree, token)
        if tree is _MISSING:
            raise PatchRejected(f"there is nothing at {'/'.join(pointer)!r}")
    return tree
