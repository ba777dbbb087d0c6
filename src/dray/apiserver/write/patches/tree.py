"""What all patches know about JSON trees: their kinds and when two are the same.

Trees come from a JSON decoder (lists) or from structs (tuples), so both count as lists. Python calls `True == 1` and
`1 == 1.0` equal; JSON does not know the first, and the second only by value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any

LISTS = (list, tuple)


def same(left: JsonValue, right: JsonValue) -> bool:
    """Whether two trees are the same JSON value.

    >>> same({"a": [1, True]}, {"a": (1.0, True)}), same(1, True)
    (True, False)
    """
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and same(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, LISTS):
        return isinstance(right, LISTS) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False  # the two booleans are singletons: "is" has answered already
    return bool(left == right)


def without_nulls(value: JsonValue) -> JsonValue:
    """The tree without object members that are null, as a merge leaves what it creates."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return value


def kind(value: JsonValue) -> str:
    """The JSON name of a value's type, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "list"
