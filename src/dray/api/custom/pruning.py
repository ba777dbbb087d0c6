"""What a request's tree loses and gains before anybody looks at its values.

Members that the schema does not know are dropped, and told as complaints. A null where none is allowed means that the
member is left out. Then come the defaults. All in place: the tree is private to its request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from dray.api.custom.structure import ANYTHING, SchemaNode
from dray.api.errors import TooLarge
from dray.api.wire import Tree

MOST_DEFAULTS = 512 << 10  # bytes that a request may have filled in; no object is stored with three times as many
_TYPE = ("apiVersion", "kind", "metadata")
_encode, _decode = msgspec.json.encode, msgspec.json.decode


def pruned(node: SchemaNode, tree: Tree) -> list[str]:
    """Drop what the schema of a whole object does not know; returns the complaints about it."""
    complaints: list[str] = []
    _prune(node, tree, "", complaints, whole=True)
    return complaints


def embedded_metadata(node: SchemaNode, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The metadata of objects within an object, with their paths."""
    if not node.has_embedded:
        return
    if node.embedded and isinstance(value, dict) and "metadata" in value:
        yield f"{path}.metadata", value["metadata"]
    if isinstance(value, dict):
        for name, item in value.items():
            part = node.properties.get(name) or node.additional
            if part is not None:
                yield from embedded_metadata(part, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from embedded_metadata(node.items, item, f"{path}[{index}]")


def pruned_value(node: SchemaNode, value: Any) -> list[str]:
    """What a part of an object says that its schema does not know; the value stays as it is."""
    complaints: list[str] = []
    _prune(node, _decode(_encode(value)), "", complaints)
    return complaints


def _prune(node: SchemaNode, value: Any, path: str, complaints: list[str], whole: bool = False) -> None:
    if isinstance(value, dict):
        _prune_members(node, value, path, complaints, whole or node.embedded)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _prune(node.items, item, f"{path}[{index}]", complaints)


def _prune_members(node: SchemaNode, tree: Tree, path: str, complaints: list[str], whole: bool) -> None:
    for name in list(tree):
        if whole and name in _TYPE:
            continue
        part = node.properties.get(name) or node.additional
        here = f"{path}.{name}" if path else name
        if part is None:
            if not node.preserves:
                complaints.append(f'unknown field "{here}"')
                del tree[name]
        elif part is not ANYTHING:
            _prune(part, tree[name], here, complaints)


class DefaultsBudget:
    """How many bytes of defaults an object may still get: a short list of empty objects could otherwise become huge."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, size: int) -> None:
        """Raises TooLarge."""
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"Request entity too large: the defaults of the object have more than {self._most} bytes")


def fill(node: SchemaNode, value: Any, room: DefaultsBudget | None = None) -> None:
    """Drop nulls that mean nothing, and fill in defaults."""
    if isinstance(value, dict):
        _fill_members(node, value, room)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            fill(node.items, item, room)


def _fill_members(node: SchemaNode, tree: Tree, room: DefaultsBudget | None) -> None:
    for name in [name for name, value in tree.items() if value is None]:
        part = node.properties.get(name) or node.additional
        if part is not None and part is not ANYTHING and not part.nullable:
            del tree[name]
    if node.has_defaults:
        for name, part in node.properties.items():
            if part.default is not UNSET and name not in tree:
                text = _encode(part.default)
                if room is not None:
                    room.take(len(text))
                tree[name] = _decode(text)  # a copy of its own
    for name, value in tree.items():
        part = node.properties.get(name) or node.additional
        if part is not None and part is not ANYTHING and isinstance(value, (dict, list)):
            fill(part, value, room)
