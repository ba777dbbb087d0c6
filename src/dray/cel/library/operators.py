"""Operators: arithmetic with overflow checks, ordering across number types, membership, indexing and logic."""

from __future__ import annotations

import math
from collections.abc import Callable

from dray.cel import types
from dray.cel.declarations import Function, Overload, metered, overload
from dray.cel.errors import EvaluationError, NoSuchOverload
from dray.cel.library.times import add_span
from dray.cel.limits import EffortAccount
from dray.cel.prices import COMPARISON, CONCATENATION, EQUALITY, LIST_CONCATENATION, MEMBERSHIP
from dray.cel.types import Type, list_of, map_of, param
from dray.cel.values import (
    INT_MAX,
    INT_MIN,
    MAPS,
    ORDERED,
    SIZED,
    UINT_MAX,
    Duration,
    MergedList,
    Timestamp,
    Uint,
    Value,
    equal,
    map_key,
    ordered,
)

_INT_OVERFLOW = "integer overflow"
_UINT_OVERFLOW = "unsigned integer overflow"


def checked_int(value: int) -> int:
    """Return the value if it fits a CEL int (64 bits). Raises EvaluationError otherwise."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError(_INT_OVERFLOW)


def checked_uint(value: int) -> Uint:
    """Return the value as a CEL uint if it fits (64 bits). Raises EvaluationError otherwise."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError(_UINT_OVERFLOW)


@metered
def add(account: EffortAccount, left: Value, right: Value) -> Value:
    """Evaluate `left + right` for numbers, strings, bytes, lists, durations and timestamps.

    Raises NoSuchOverload for other operands and EvaluationError if the result is out of range.
    """
    match left, right:
        case str(), str():
            account.spend_text(len(left) + len(right))
            return left + right
        case bytes(), bytes():
            account.spend_text(len(left) + len(right))
            return left + right
        case list(), list():
            account.spend_elements(len(left) + len(right))
            return left.merged(right) if isinstance(left, MergedList) else left + right
        case (Duration(), Duration() | Timestamp()) | (Timestamp(), Duration()):
            return _add_times(left, right)
    return _arithmetic(left, right, lambda a, b: a + b)


def _add_times(left: Value, right: Value) -> Value:
    if isinstance(left, Timestamp):
        left, right = right, left
    assert isinstance(left, Duration)
    if isinstance(right, Timestamp):
        return add_span(right, left.nanos)
    assert isinstance(right, Duration)
    return Duration(checked_int(left.nanos + right.nanos))


def subtract(left: Value, right: Value) -> Value:
    """Evaluate `left - right` for numbers, durations and timestamps.

    Raises NoSuchOverload for other operands and EvaluationError if the result is out of range.
    """
    match left, right:
        case Timestamp(), Timestamp():
            return Duration(checked_int(left.nanos - right.nanos))
        case Timestamp(), Duration():
            return add_span(left, checked_int(-right.nanos))
        case Duration(), Duration():
            return Duration(checked_int(left.nanos - right.nanos))
    return _arithmetic(left, right, lambda a, b: a - b)


def multiply(left: Value, right: Value) -> Value:
    """Evaluate `left * right` for numbers.

    Raises NoSuchOverload for other operands and EvaluationError if the result is out of range.
    """
    return _arithmetic(left, right, lambda a, b: a * b)


def divide(left: Value, right: Value) -> Value:
    """Evaluate `left / right`: integers are truncated towards zero, doubles follow IEEE 754.

    Raises NoSuchOverload for other operands and EvaluationError if an integer is divided by 0.
    """
    if isinstance(left, float) and isinstance(right, float):
        return _divide_doubles(left, right)
    return _arithmetic(left, right, lambda a, b: _truncate(a, b, "division by zero"))


def modulo(left: Value, right: Value) -> Value:
    """Evaluate `left % right` for integers; the result has the sign of `left`.

    Raises NoSuchOverload for doubles and for operands of two types, EvaluationError if `right` is 0.
    """
    if isinstance(left, float):
        raise NoSuchOverload
    return _arithmetic(left, right, lambda a, b: a - b * _truncate(a, b, "modulus by zero"))


def negate(value: Value) -> Value:
    """Evaluate `-value` for ints, doubles and durations.

    Raises NoSuchOverload for other types, EvaluationError if the result does not fit 64 bits.
    """
    if value.__class__ is int:
        return checked_int(-value)
    if isinstance(value, float):
        return -value
    if isinstance(value, Duration):
        return Duration(checked_int(-value.nanos))
    raise NoSuchOverload


def logical_not(value: Value) -> Value:
    """Evaluate `!value`. Raises NoSuchOverload unless the value is a bool."""
    if value.__class__ is not bool:
        raise NoSuchOverload
    return not value


def _arithmetic(left: Value, right: Value, operate: Callable[[int, int], int]) -> Value:
    kind = left.__class__
    if kind is not right.__class__:
        raise NoSuchOverload
    if kind is int:
        return checked_int(operate(left, right))  # type: ignore[arg-type]  # both are ints
    if kind is Uint:
        return checked_uint(operate(int(left), int(right)))  # type: ignore[call-overload]  # both are uints
    if kind is float:
        return operate(left, right)  # type: ignore[arg-type]  # doubles follow the same operators
    raise NoSuchOverload


def _truncate(left: int, right: int, complaint: str) -> int:
    if right == 0:
        raise EvaluationError(complaint)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


# Ordering: comparisons with NaN are always false.


def less(left: Value, right: Value) -> bool:
    """Evaluate `left < right`. Raises NoSuchOverload if the types have no common order."""
    if ordered(left, right):
        return left < right  # type: ignore[operator,no-any-return]  # both are of an ordered type
    raise NoSuchOverload


def less_equal(left: Value, right: Value) -> bool:
    """Evaluate `left <= right`. Raises NoSuchOverload if the types have no common order."""
    if ordered(left, right):
        return left <= right  # type: ignore[operator,no-any-return]  # both are of an ordered type
    raise NoSuchOverload


def greater(left: Value, right: Value) -> bool:
    """Evaluate `left > right`. Raises NoSuchOverload if the types have no common order."""
    return less(right, left)


def greater_equal(left: Value, right: Value) -> bool:
    """Evaluate `left >= right`. Raises NoSuchOverload if the types have no common order."""
    return less_equal(right, left)


@metered
def unequal(account: EffortAccount, left: Value, right: Value) -> bool:
    """Evaluate `left != right`. Returns True if the values cannot be compared."""
    try:
        return not equal(account, left, right)
    except NoSuchOverload:
        return True


@metered
def contains(account: EffortAccount, element: Value, container: Value) -> bool:
    """Evaluate `element in container`: an element of a list, or a key of a map.

    Elements that cannot be compared are not equal. Raises NoSuchOverload if `container` is neither list nor map.
    """
    if isinstance(container, list):
        account.spend_elements(len(container))
        return any(same(account, element, item) for item in container)
    if container.__class__ in MAPS:
        return element.__hash__ is not None and map_key(element) in container
    raise NoSuchOverload


def same(account: EffortAccount, left: Value, right: Value) -> bool:
    """Return whether two values are equal; False if they cannot be compared."""
    try:
        return equal(account, left, right)
    except NoSuchOverload:
        return False


def size(value: Value) -> int:
    """Evaluate `size(value)`: the length of a string, bytes, list or map.

    Is only called with such values.
    """
    return len(value)  # type: ignore[arg-type]  # only called with what has a size


_A, _B = param("A"), param("B")
_NUMBERS = {"int64": types.INT, "uint64": types.UINT, "double": types.DOUBLE}
_NUMBER_PAIRS = [
    ("int64", types.INT, types.INT),
    ("int64_double", types.INT, types.DOUBLE),
    ("int64_uint64", types.INT, types.UINT),
    ("uint64", types.UINT, types.UINT),
    ("uint64_double", types.UINT, types.DOUBLE),
    ("uint64_int64", types.UINT, types.INT),
    ("double", types.DOUBLE, types.DOUBLE),
    ("double_int64", types.DOUBLE, types.INT),
    ("double_uint64", types.DOUBLE, types.UINT),
]
_TEXTS = ("string", "bytes")
_OTHER_ORDERED = {
    "string": types.STRING,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
}


def _same_type(prefix: str, operands: dict[str, Type]) -> list[Overload]:
    return [overload(f"{prefix}_{name}", (kind, kind), kind) for name, kind in operands.items()]


def _relation(name: str, prefix: str, run: Callable[[Value, Value], bool]) -> Function:
    pairs = [
        ("bool", types.BOOL, types.BOOL),
        *_NUMBER_PAIRS,
        *((kind, of, of) for kind, of in _OTHER_ORDERED.items()),
    ]
    overloads = [
        overload(f"{prefix}_{kind}", (left, right), types.BOOL, price=COMPARISON if kind in _TEXTS else None)
        for kind, left, right in pairs
    ]
    return Function(name, tuple(overloads), run, ORDERED)


_TIMES = {Timestamp, Duration}
_NUMERIC = frozenset({int, Uint, float})

FUNCTIONS = (
    Function("_?_:_", (overload("conditional", (types.BOOL, _A, _A), _A),)),
    Function("_&&_", (overload("logical_and", (types.BOOL, types.BOOL), types.BOOL),)),
    Function("_||_", (overload("logical_or", (types.BOOL, types.BOOL), types.BOOL),)),
    Function("!_", (overload("logical_not", (types.BOOL,), types.BOOL),), logical_not),
    Function("@not_strictly_false", (overload("not_strictly_false", (types.BOOL,), types.BOOL),)),
    Function("_==_", (overload("equals", (_A, _A), types.BOOL, price=EQUALITY),), metered(equal)),
    Function("_!=_", (overload("not_equals", (_A, _A), types.BOOL, price=COMPARISON),), unequal),
    Function(
        "_+_",
        (
            overload("add_bytes", (types.BYTES, types.BYTES), types.BYTES, price=CONCATENATION),
            overload("add_double", (types.DOUBLE, types.DOUBLE), types.DOUBLE),
            overload("add_duration_duration", (types.DURATION, types.DURATION), types.DURATION),
            overload("add_duration_timestamp", (types.DURATION, types.TIMESTAMP), types.TIMESTAMP),
            overload("add_timestamp_duration", (types.TIMESTAMP, types.DURATION), types.TIMESTAMP),
            overload("add_int64", (types.INT, types.INT), types.INT),
            overload("add_list", (list_of(_A), list_of(_A)), list_of(_A), price=LIST_CONCATENATION),
            overload("add_string", (types.STRING, types.STRING), types.STRING, price=CONCATENATION),
            overload("add_uint64", (types.UINT, types.UINT), types.UINT),
        ),
        add,
        _NUMERIC | _TIMES | {str, bytes, list, MergedList},
    ),
    Function("_/_", tuple(_same_type("divide", _NUMBERS)), divide, _NUMERIC),
    Function(
        "_%_",
        tuple(_same_type("modulo", {"int64": types.INT, "uint64": types.UINT})),
        modulo,
        frozenset({int, Uint}),
    ),
    Function("_*_", tuple(_same_type("multiply", _NUMBERS)), multiply, _NUMERIC),
    Function(
        "-_",
        (
            overload("negate_double", (types.DOUBLE,), types.DOUBLE),
            overload("negate_int64", (types.INT,), types.INT),
        ),
        negate,
        frozenset({bool, int, float, Duration}),
    ),
    Function(
        "_-_",
        (
            overload("subtract_double", (types.DOUBLE, types.DOUBLE), types.DOUBLE),
            overload("subtract_duration_duration", (types.DURATION, types.DURATION), types.DURATION),
            overload("subtract_int64", (types.INT, types.INT), types.INT),
            overload("subtract_timestamp_duration", (types.TIMESTAMP, types.DURATION), types.TIMESTAMP),
            overload("subtract_timestamp_timestamp", (types.TIMESTAMP, types.TIMESTAMP), types.DURATION),
            overload("subtract_uint64", (types.UINT, types.UINT), types.UINT),
        ),
        subtract,
        _NUMERIC | _TIMES,
    ),
    _relation("_<_", "less", less),
    _relation("_<=_", "less_equals", less_equal),
    _relation("_>_", "greater", greater),
    _relation("_>=_", "greater_equals", greater_equal),
    Function(
        "_[_]",
        (
            overload("index_list", (list_of(_A), types.INT), _A),
            overload("index_map", (map_of(_A, _B), _A), _B),
        ),
    ),
    Function(
        "@in",
        (
            overload("in_list", (_A, list_of(_A)), types.BOOL, price=MEMBERSHIP),
            overload("in_map", (_A, map_of(_A, _B)), types.BOOL),
        ),
        contains,
    ),
    Function(
        "size",
        tuple(
            Overload(id, (of,), types.INT, is_method)
            for name, of in (
                ("bytes", types.BYTES),
                ("list", list_of(_A)),
                ("map", map_of(_A, _B)),
                ("string", types.STRING),
            )
            for id, is_method in ((f"size_{name}", False), (f"{name}_size", True))
        ),
        size,
        SIZED,
    ),
)
