"""Hypothesis strategies for trees of any message, made from the schema table."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from dray.api import schema

NAMES = st.sampled_from(["a", "b", "gpu", "x-1"])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": NAMES,
    "i32": st.integers(-5, 2**31 - 1),
    "i64": st.integers(-5, 2**63 - 1),
    "num": st.sampled_from([0.5, 2.0]),
    "bool": st.booleans(),
    "bytes": st.sampled_from(["", "YQ=="]),
    "time": st.just("2026-01-01T00:00:00Z"),
    "microtime": st.just("2026-01-01T00:00:00.000001Z"),
    "quantity": st.sampled_from(["1", "500m", "1Gi", "0"]),
    "intstr": st.sampled_from([1, "25%"]),
    "raw": st.fixed_dictionaries({"k": st.integers(0, 3)}),
}


@cache
def trees(message: str, depth: int = 5) -> st.SearchStrategy[dict[str, Any]]:
    """Well typed trees of a message; below `depth` messages are empty."""
    if depth == 0:
        return st.just({})
    fields = {
        name: _field(field, depth)
        for name, field in schema.message(message).fields.items()
        if name not in ("apiVersion", "kind") and field.reference != message
    }
    return st.fixed_dictionaries({}, optional=fields)


def _field(field: schema.Field, depth: int) -> st.SearchStrategy[Any]:
    value = trees(field.reference, depth - 1) if field.reference else _VALUES[field.element.lstrip("[")]
    if field.element.startswith("["):
        value = st.lists(value, max_size=2)
    if field.is_list:
        return st.lists(value, min_size=1, max_size=2)
    return st.dictionaries(NAMES, value, min_size=1, max_size=2) if field.is_map else value
