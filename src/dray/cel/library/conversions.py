"""Type conversion functions, named after their target types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from dray.cel import types
from dray.cel.declarations import Function, overload
from dray.cel.errors import EvaluationError
from dray.cel.library.operators import checked_int, checked_uint
from dray.cel.library.times import format_duration, format_timestamp, make_timestamp, parse_duration, parse_timestamp
from dray.cel.prices import BYTES_TO_TEXT, TEXT_TO_BYTES
from dray.cel.types import Type, param
from dray.cel.values import INT_MAX, INT_MIN, NANOS, UINT_MAX, Duration, Timestamp, Uint, Value, format_double, type_of

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_UNSIGNED = re.compile(r"[0-9]+\Z")
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z|[+-]?(?:inf|infinity|nan)\Z", re.IGNORECASE
)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _failure(source: Type, target: Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source.declared()}' to '{target.declared()}'")


def _same(value: Value) -> Value:
    return value


def _string_to_bool(text: str) -> Value:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _failure(types.STRING, types.BOOL)


def _string_to_int(text: str) -> Value:
    if _INTEGER.match(text) and len(text) < 4000 and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    raise _failure(types.STRING, types.INT)


def _string_to_uint(text: str) -> Value:
    if _UNSIGNED.match(text) and len(text) < 4000 and int(text) <= UINT_MAX:
        return Uint(text)
    raise _failure(types.STRING, types.UINT)


def string_to_double(text: str) -> float:
    """Parse a double. Raises EvaluationError if the text is not a number or is too large.

    Infinity and NaN are accepted by name.
    """
    if _DOUBLE.match(text):
        value = float(text)
        if math.isfinite(value) or text.strip("+-")[0] in "iInN":
            return value
    raise _failure(types.STRING, types.DOUBLE)


def _string_to_duration(text: str) -> Value:
    duration = parse_duration(text)
    if duration is None:
        raise _failure(types.STRING, types.DURATION)
    return duration


def _string_to_timestamp(text: str) -> Value:
    timestamp = parse_timestamp(text)
    if timestamp is None:
        raise _failure(types.STRING, types.TIMESTAMP)
    return timestamp


def _double_to_int(value: float) -> Value:
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Value:
    if not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _bytes_to_string(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error


def to_string(value: Value) -> str:
    """Convert a value to a string as CEL's `string()` does. Raises EvaluationError for bytes that are not UTF-8."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return format_double(value)
        case bytes():
            return str(_bytes_to_string(value))
        case Timestamp():
            return format_timestamp(value)
        case Duration():
            return format_duration(value)
        case Type():
            return value.name
    return str(int(value)) if isinstance(value, int) else str(value)


# Types by their names in overload ids.
_SOURCES = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "int64": types.INT,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint64": types.UINT,
}


_PRICES = {"string_to_bytes": TEXT_TO_BYTES, "bytes_to_string": BYTES_TO_TEXT}


def _conversion(target: str, result: Type, **sources: Callable[..., Value]) -> Function:
    """Return the conversion function `target` with one overload per source type; `sources` has keys of `_SOURCES`.

    `sources` maps each source type to its implementation.
    """
    overloads = (
        overload(id, (_SOURCES[source],), result, run, _PRICES.get(id))
        for source, run in sources.items()
        for id in (f"{source}_to_{target}",)
    )
    return Function(target, tuple(overloads))


_A = param("A")

FUNCTIONS = (
    Function("type", (overload("type", (_A,), types.type_of(_A)),), type_of),
    _conversion("bool", types.BOOL, bool=_same, string=_string_to_bool),
    _conversion("bytes", types.BYTES, bytes=_same, string=str.encode),
    _conversion("double", types.DOUBLE, double=_same, int64=float, string=string_to_double, uint64=float),
    _conversion("duration", types.DURATION, duration=_same, string=_string_to_duration),
    Function("dyn", (overload("to_dyn", (_A,), types.DYN),), _same),
    _conversion(
        "int",
        types.INT,
        int64=_same,
        double=_double_to_int,
        duration=lambda duration: duration.nanos,
        string=_string_to_int,
        timestamp=lambda timestamp: timestamp.nanos // NANOS,
        uint64=lambda value: checked_int(int(value)),
    ),
    _conversion("string", types.STRING, string=_same, **{name: to_string for name in _SOURCES if name != "string"}),
    _conversion("timestamp", types.TIMESTAMP, timestamp=_same, int64=make_timestamp, string=_string_to_timestamp),
    _conversion("uint", types.UINT, uint64=_same, double=_double_to_uint, int64=checked_uint, string=_string_to_uint),
)

# Calls of these functions with a constant are evaluated when the expression is compiled.
CONVERSIONS = frozenset(function.name for function in FUNCTIONS)
