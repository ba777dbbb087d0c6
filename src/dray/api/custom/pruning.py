"""Prunes and defaults the tree of a request before its values are validated.

Fields that the schema does not declare are removed and reported. A null that is not permitted counts as an absent
field. Then defaults are added. All changes are in place, because the tree belongs to one request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from dray.api.custom.structure import ANYTHING, SchemaNode
from dray.api.errors import TooLarge
from dray.api.wire import Tree

MOST_DEFAULTS = 512 << 10  # maximum bytes of defaults added to one object; about a third of the largest stored object
_TYPE = ("apiVersion", "kind", "metadata")
_encode, _decode = msgspec.json.encode, msgspec.json.decode


def pruned(node: SchemaNode, tree: Tree) -> list[str]:
    """Remove, in place, all fields of an object that its schema does not declare.

    Returns one warning per removed field.
    """
    complaints: list[str] = []
    _prune(node, tree, "", complaints, whole=True)
    return complaints


def embedded_metadata(node: SchemaNode, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the metadata of embedded objects, each with its path. Objects without metadata are left out."""
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
    """Return one warning per field of a value that its schema does not declare; the value is not changed."""
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
    """Remaining bytes of defaults for one object; bounds the defaults of a list of empty objects."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, size: int) -> None:
        """Subtract from the remaining bytes. Raises TooLarge when they are exhausted."""
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"Request entity too large: the defaults of the object have more than {self._most} bytes")


def fill(node: SchemaNode, value: Any, room: DefaultsBudget | None = None) -> None:
    """Remove nulls that are not permitted and add defaults, in place. Raises TooLarge if `room` is exhausted.

    Without `room`, the size of the defaults is not limited.
    """
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
                tree[name] = _decode(text)  # a separate copy for each object
    for name, value in tree.items():
        part = node.properties.get(name) or node.additional
        if part is not None and part is not ANYTHING and isinstance(value, (dict, list)):
            fill(part, value, room)
