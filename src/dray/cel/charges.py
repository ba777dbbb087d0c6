"""Actual costs of calls, from the values they were given and gave; the counterpart of `estimates`.

An expression is cut off when these add up to more than its limit, however it was estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dray.cel.limits import REGEX_COST_FACTOR, TEXT_COST_FACTOR
from dray.cel.types import SORTABLE
from dray.cel.values import RIGID, CelAuthorizer, Format, Optional, Value, size_for_cost

Charge = Callable[[str, Sequence[Value], Value], int | None]

_LIST_COST = 10
_CHECK_COST = 350_000  # so that an expression can ask the authorizer twice
COMPARISONS = frozenset(
    {"equals", "not_equals"}
    | {f"{order}_{of}" for order in ("less", "less_equals", "greater", "greater_equals") for of in ("string", "bytes")}
)


def charge(function: str, overload: str, args: Sequence[Value], result: Value) -> int:
    """The cost of one call; `overload` is empty where the values had to decide."""
    by_overload = _OVERLOADS.get(overload)
    if by_overload is not None:
        return by_overload(args, result)
    by_function = _FUNCTIONS.get(function)
    cost = by_function(overload, args, result) if by_function else None
    return _standard(overload, args) if cost is None else cost


def _pass(size: int, factor: float = TEXT_COST_FACTOR) -> int:
    return math.ceil(size * factor)


def _size(value: Value) -> int:
    if isinstance(value, Optional) and value.present:
        return _size(value.value)
    return size_for_cost(value)


def _standard(overload: str, args: Sequence[Value]) -> int:
    if overload in COMPARISONS:
        return _pass(min(_size(args[0]), _size(args[1])))
    match overload:
        case "starts_with_string" | "ends_with_string":
            return _pass(_size(args[1]))
        case "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format":
            return _pass(_size(args[0]))
        case "in_list":
            return _size(args[1])
        case "add_string" | "add_bytes":
            return _pass(_size(args[0]) + _size(args[1]))
        case "matches" | "matches_string":
            return _pass(1 + _size(args[0])) * _pass(_size(args[1]), REGEX_COST_FACTOR)
        case "contains_string":
            return _pass(_size(args[0])) * _pass(_size(args[1]))
    return 1


def _traversal(value: Value) -> int:
    """The cost of looking at every leaf of a value."""
    match value:
        case str():
            return int(len(value.encode()) * TEXT_COST_FACTOR)
        case bytes():
            return int(len(value) * TEXT_COST_FACTOR)
        case list():
            return sum(map(_traversal, value))
        case dict():
            return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _nominal(overload: str, args: Sequence[Value], result: Value) -> int:
    return 1


def _leaves(overload: str, args: Sequence[Value], result: Value) -> int:
    return _traversal(args[0])


def _first_pass(overload: str, args: Sequence[Value], result: Value) -> int:
    return 1 if overload == "cidr_ip" else _pass(size_for_cost(args[0]))


def _first_pass_twice(overload: str, args: Sequence[Value], result: Value) -> int:
    return math.ceil(size_for_cost(args[0]) * 2 * TEXT_COST_FACTOR)


def _join(overload: str, args: Sequence[Value], result: Value) -> int:
    return math.ceil(size_for_cost(result) * 2 * TEXT_COST_FACTOR)


def _find(overload: str, args: Sequence[Value], result: Value) -> int:
    return _pass(1 + size_for_cost(args[0])) * _pass(size_for_cost(args[1]), REGEX_COST_FACTOR)


def _contains_ip(overload: str, args: Sequence[Value], result: Value) -> int:
    cost = _pass(2 * size_for_cost(args[0]))
    return cost + (_pass(size_for_cost(args[1])) if overload == "cidr_contains_ip_string" else 0)


def _contains_cidr(overload: str, args: Sequence[Value], result: Value) -> int:
    size = size_for_cost(args[0])
    cost = _pass(2 * size) + _pass(size) + 1
    return cost + (_pass(size_for_cost(args[1])) if overload == "cidr_contains_cidr_string" else 0)


def _validate(overload: str, args: Sequence[Value], result: Value) -> int | None:
    if not isinstance(args[0], Format):
        return None
    return _pass(1 + size_for_cost(args[1])) * _pass(args[0].regex_size, REGEX_COST_FACTOR)


def _check(overload: str, args: Sequence[Value], result: Value) -> int | None:
    return _CHECK_COST if isinstance(args[0], CelAuthorizer) else None


def _equals(overload: str, args: Sequence[Value], result: Value) -> int | None:
    return 1 if args[0].__class__ in RIGID else None


_FUNCTIONS: dict[str, Charge] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _leaves),
    **dict.fromkeys(
        (
            *("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "ip"),
            *("quantity", "isQuantity", "semver", "isSemver"),
        ),
        _first_pass,
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_pass_twice),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        (
            *("masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
            *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
            *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan"),
            *("compareTo", "add", "sub", "major", "minor", "patch", "format.named"),
            *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
        ),
        _nominal,
    ),
    "join": _join,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "check": _check,
    "_==_": _equals,
}


def _allocation(factor: float, size: int) -> int:
    return int(size * (1.0 if factor < 0 else factor)) + 1 + _LIST_COST


def _result_list(args: Sequence[Value], result: Value) -> int:
    return _allocation(1, size_for_cost(result))


def _flatten(args: Sequence[Value], result: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and isinstance(args[1], int) else 1.0
    return _allocation(depth, size_for_cost(args[0]))


def _comparing(position: int) -> Callable[[Sequence[Value], Value], int]:
    def cost(args: Sequence[Value], result: Value) -> int:
        elements = args[position]
        if not isinstance(elements, list) or not elements:
            return _allocation(2, 0)
        factor = 2 + TEXT_COST_FACTOR if isinstance(elements[0], (str, bytes)) else 2
        return _allocation(factor, len(elements) ** 2)

    return cost


def _sets(factor: float) -> Callable[[Sequence[Value], Value], int]:
    return lambda args, result: 1 + int(size_for_cost(args[0]) * size_for_cost(args[1]) * factor)


_OVERLOADS: dict[str, Callable[[Sequence[Value], Value], int]] = {
    "list_slice": _result_list,
    "lists_range": _result_list,
    "list_reverse": _result_list,
    "list_distinct": _comparing(0),
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    **{f"list_{of.name}_sort": _comparing(0) for of in SORTABLE},
    **{f"list_{of.name}_sortByAssociatedKeys": _comparing(1) for of in SORTABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
