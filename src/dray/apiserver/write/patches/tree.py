"""Functions on JSON trees that all patches use: type names and equality.

Trees come from a JSON decoder (lists) or from structs (tuples), so both count as lists. In Python, `True == 1` and `1
== 1.0`; in JSON, booleans never equal numbers, while numbers are compared by value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any

LISTS = (list, tuple)


def same(left: JsonValue, right: JsonValue) -> bool:
    """Return whether two trees are the same JSON value.

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
        return False  # booleans are singletons, so `is` has already compared them
    return bool(left == right)


def without_nulls(value: JsonValue) -> JsonValue:
    """Return the tree without object members that are null, as a merge patch creates new values."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return value


def kind(value: JsonValue) -> str:
    """Return the JSON type name of a value, for messages: null, boolean, number, string, object or list."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "list"
