"""Ordering of quantities and of semantic versions."""

from __future__ import annotations

from typing import Any

from dray.api.quantity import Quantity
from dray.api.semver import Semver
from dray.cel import types
from dray.cel.declarations import function, method
from dray.cel.errors import NoSuchOverload

_RANKED = (Quantity, Semver)


def compare(left: Any, right: Any) -> int:
    """Evaluate `left.compareTo(right)` for two quantities or two versions. Returns -1, 0 or 1.

    Raises NoSuchOverload for values of other types or of two types.
    """
    if left.__class__ is right.__class__ and isinstance(left, _RANKED):
        return left.compare(right)
    raise NoSuchOverload


def is_greater(left: Any, right: Any) -> bool:
    """Evaluate `left.isGreaterThan(right)` for two quantities or two versions.

    Raises NoSuchOverload for values of other types or of two types.
    """
    return compare(left, right) > 0


def is_less(left: Any, right: Any) -> bool:
    """Evaluate `left.isLessThan(right)` for two quantities or two versions.

    Raises NoSuchOverload for values of other types or of two types.
    """
    return compare(left, right) < 0


_Q, _V = types.QUANTITY, types.SEMVER

# Attributes have no static type, so generated code calls the functions that check the types of their values.
FUNCTIONS = (
    function(
        "isGreaterThan",
        method("quantity_is_greater_than", (_Q, _Q), types.BOOL, Quantity.__gt__),
        method("semver_is_greater_than", (_V, _V), types.BOOL, Semver.__gt__),
        generated=is_greater,
    ),
    function(
        "isLessThan",
        method("quantity_is_less_than", (_Q, _Q), types.BOOL, Quantity.__lt__),
        method("semver_is_less_than", (_V, _V), types.BOOL, Semver.__lt__),
        generated=is_less,
    ),
    function(
        "compareTo",
        method("quantity_compare_to", (_Q, _Q), types.INT, Quantity.compare),
        method("semver_compare_to", (_V, _V), types.INT, Semver.compare),
        generated=compare,
    ),
)
