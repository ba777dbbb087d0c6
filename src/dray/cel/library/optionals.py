"""Functions of optional values. The interpreter implements `or` and `orValue`, which are lazy."""

from __future__ import annotations

from dray.cel import types
from dray.cel.declarations import Function, function, method, overload
from dray.cel.errors import EvaluationError
from dray.cel.types import list_of, map_of, optional_of, param
from dray.cel.values import NONE, Duration, Optional, Timestamp, Value, show

_YEAR_ONE = -62135596800 * 1_000_000_000  # the zero value of a timestamp


def of_non_zero(value: Value) -> Value:
    """Evaluate `optional.ofNonZeroValue(value)`. Returns the empty optional for a zero value like 0 or ""."""
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    match value:
        case None:
            return True
        case Duration():
            return value.nanos == 0
        case Timestamp():
            return value.nanos == _YEAR_ONE
        case bool() | int() | float() | str() | bytes() | list() | dict():
            return not value
        case Optional():
            return not value.present or _is_zero(value.value)
    return False


def _unwrap(elements: list[Value]) -> Value:
    result: list[Value] = []
    for element in elements:
        if not isinstance(element, Optional):
            raise EvaluationError(f"value {show(element)} is not optional")
        if element.present:
            result.append(element.value)
    return result


def _first(elements: list[Value]) -> Value:
    return Optional(elements[0]) if elements else NONE


def _last(elements: list[Value]) -> Value:
    return Optional(elements[-1]) if elements else NONE


_K, _V = param("K"), param("V")
_OPTIONAL = optional_of(_V)
_LIST, _MAP = list_of(_V), map_of(_K, _V)

FUNCTIONS = (
    function("optional.of", overload("optional_of", (_V,), _OPTIONAL, Optional)),
    function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero)),
    function("optional.none", overload("optional_none", (), _OPTIONAL, lambda: NONE)),
    function("value", method("optional_value", (_OPTIONAL,), _V, lambda optional: optional.value)),
    function("hasValue", method("optional_hasValue", (_OPTIONAL,), types.BOOL, lambda optional: optional.present)),
    Function("or", (method("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL),)),
    Function("orValue", (method("optional_orValue_value", (_OPTIONAL, _V), _V),)),
    Function("_?._", (overload("select_optional_field", (types.DYN, types.STRING), _OPTIONAL),)),
    Function(
        "_[?_]",
        (
            overload("list_optindex_optional_int", (_LIST, types.INT), _OPTIONAL),
            overload("optional_list_optindex_optional_int", (optional_of(_LIST), types.INT), _OPTIONAL),
            overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL),
            overload("optional_map_optindex_optional_value", (optional_of(_MAP), _K), _OPTIONAL),
        ),
    ),
    Function(
        "_[_]",
        (
            overload("optional_list_index_int", (optional_of(_LIST), types.INT), _OPTIONAL),
            overload("optional_map_index_value", (optional_of(_MAP), _K), _OPTIONAL),
        ),
    ),
    function("last", method("list_last", (_LIST,), _OPTIONAL, _last)),
    function("first", method("list_first", (_LIST,), _OPTIONAL, _first)),
    function("optional.unwrap", overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, _unwrap)),
    function("unwrapOpt", method("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, _unwrap)),
)
