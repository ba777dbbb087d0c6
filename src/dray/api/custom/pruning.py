"""What a request's tree loses and gains before anybody looks at its values.

Members that the schema does not know are dropped, and told as complaints. A null where none is allowed means that the
member is left out. Then come the defaults. All in place: the tree is private to its request.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dray.api.custom.structure import ANYTHING, Node
from dray.api.wire import Tree

_TYPE = ("apiVersion", "kind", "metadata")
_encode, _decode = msgspec.json.encode, msgspec.json.decode


def pruned(node: Node, tree: Tree) -> list[str]:
    """Drop what the schema of a whole object does not know; returns the complaints about it."""
    complaints: list[str] = []
    _prune(node, tree, "", complaints, whole=True)
    return complaints


def pruned_value(node: Node, value: Any) -> list[str]:
    """What a part of an object says that its schema does not know; the value stays as it is."""
    complaints: list[str] = []
    _prune(node, _decode(_encode(value)), "", complaints)
    return complaints


def _prune(node: Node, value: Any, path: str, complaints: list[str], whole: bool = False) -> None:
    if isinstance(value, dict):
        _prune_members(node, value, path, complaints, whole or node.embedded)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _prune(node.items, item, f"{path}[{index}]", complaints)


def _prune_members(node: Node, tree: Tree, path: str, complaints: list[str], whole: bool) -> None:
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


def fill(node: Node, value: Any) -> None:
    """Drop nulls that mean nothing, and fill in defaults."""
    if isinstance(value, dict):
        _fill_members(node, value)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            fill(node.items, item)


def _fill_members(node: Node, tree: Tree) -> None:
    for name in [name for name, value in tree.items() if value is None]:
        part = node.properties.get(name) or node.additional
        if part is not None and part is not ANYTHING and not part.nullable:
            del tree[name]
    if node.has_defaults:
        for name, part in node.properties.items():
            if part.default is not UNSET and name not in tree:
                tree[name] = _decode(_encode(part.default))  # a copy of its own
    for name, value in tree.items():
        part = node.properties.get(name) or node.additional
        if part is not None and part is not ANYTHING and isinstance(value, (dict, list)):
            fill(part, value)
