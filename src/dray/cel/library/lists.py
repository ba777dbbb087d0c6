"""List functions: those of Kubernetes, the lists extension and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise

from dray.cel import types
from dray.cel.declarations import Implementation, Overload, function, metered, method, overload
from dray.cel.errors import CostExceeded, EvaluationError, NoSuchOverload
from dray.cel.library.operators import add, contains, same
from dray.cel.limits import MAX_COST, EffortAccount
from dray.cel.prices import (
    COUNTING,
    DISTINCT,
    FLATTENING,
    INCLUSION,
    LIST_PASS,
    REVERSAL,
    SET_PASS,
    SLICE,
    TWO_SET_PASSES,
    sorting,
    sorting_by,
)
from dray.cel.types import Type, list_of, map_of, param
from dray.cel.values import ORDERED, Duration, Uint, Value, compare, map_key, show

_COMPARABLE = {
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "bool": types.BOOL,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "string": types.STRING,
    "bytes": types.BYTES,
}
_ZEROS = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}

List = list[Value]


def _comparable(element: Value) -> Value:
    if element.__class__ not in ORDERED:
        raise NoSuchOverload
    return element


def _order(left: Value, right: Value) -> int | None:
    """Return -1, 0 or 1 for the order of two elements, or None if they cannot be ordered.

    NaN cannot be ordered.
    """
    try:
        return compare(left, right)
    except EvaluationError:
        return None


def _is_sorted(elements: List) -> Value:
    for element in elements:
        _comparable(element)
    return not any(_order(left, right) == 1 for left, right in pairwise(elements))


def _sum(zero: Value) -> Implementation:
    @metered
    def total(account: EffortAccount, elements: List) -> Value:
        result = zero
        for element in elements:
            result = add(account, result, element)
        return result

    return total


def _extreme(name: str, preferred: int) -> Callable[[List], Value]:
    def extreme(elements: List) -> Value:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        result = _comparable(elements[0])
        for element in elements[1:]:
            if _order(result, _comparable(element)) == preferred:
                result = element
        return result

    return extreme


@metered
def _index_of(account: EffortAccount, elements: List, wanted: Value) -> Value:
    return next((i for i, element in enumerate(elements) if same(account, element, wanted)), -1)


@metered
def _last_index_of(account: EffortAccount, elements: List, wanted: Value) -> Value:
    return next((i for i in reversed(range(len(elements))) if same(account, elements[i], wanted)), -1)


@metered
def includes(account: EffortAccount, target: Value, wanted: Value) -> Value:
    """Evaluate `target.includes(wanted)`: whether a list contains the value, or any other target equals it.

    Values that cannot be compared are not equal.
    """
    if isinstance(target, list):
        return any(same(account, element, wanted) for element in target)
    return same(account, target, wanted)


@metered
def _slice(account: EffortAccount, elements: List, start: int, end: int) -> Value:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"{call}, list is length {len(elements)}")
    account.spend_elements(end - start)
    return elements[start:end]


@metered
def _flatten(account: EffortAccount, elements: List, depth: int = 1) -> Value:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result: List = []
    stack = [(iter(elements), depth)]
    while stack:
        rest, level = stack.pop()
        for element in rest:
            if isinstance(element, list) and level > 0:
                stack += [(rest, level), (iter(element), level - 1)]
                break
            account.spend_elements(1)
            result.append(element)
    return result


def _sort(elements: List) -> Value:
    return _sort_by_keys(elements, elements)


def _sort_by_keys(elements: List, sort_keys: List) -> Value:
    if len(elements) != len(sort_keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(elements)} and {len(sort_keys)} elements respectively"
        )
    if not elements:
        return elements
    _bound_comparisons(len(elements))
    kind = sort_keys[0].__class__
    if kind not in ORDERED:
        raise EvaluationError("list elements must be comparable")
    if any(key.__class__ is not kind for key in sort_keys):
        raise EvaluationError("list elements must have the same type")
    rank = cmp_to_key(lambda left, right: _order(left, right) or 0)
    return [element for _, element in sorted(zip(sort_keys, elements, strict=True), key=lambda pair: rank(pair[0]))]


def _bound_comparisons(count: int) -> None:
    """Raise CostExceeded if comparing all pairs of `count` elements would exceed the cost limit."""
    if 2 * count * count > MAX_COST:
        raise CostExceeded


@metered
def _range(account: EffortAccount, count: int) -> Value:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_COST:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({MAX_COST})")
    account.spend_elements(count)
    return list(range(count))


@metered
def _reverse(account: EffortAccount, elements: List) -> Value:
    account.spend_elements(len(elements))
    return elements[::-1]


@metered
def _distinct(account: EffortAccount, elements: List) -> Value:
    _bound_comparisons(len(elements))
    result: List = []
    for element in elements:
        if not any(same(account, element, other) for other in result):
            result.append(element)
    return result


@metered
def _contains_all(account: EffortAccount, elements: List, wanted: List) -> bool:
    return all(contains(account, element, elements) for element in wanted)


@metered
def _equivalent(account: EffortAccount, left: List, right: List) -> bool:
    return _contains_all(account, left, right) and _contains_all(account, right, left)


@metered
def _intersects(account: EffortAccount, left: List, right: List) -> bool:
    return any(contains(account, element, right) for element in left)


def insert(mapping: dict[Value, Value], key: Value, value: Value) -> Value:
    """Return a copy of the map with one more entry. Raises EvaluationError if the key exists."""
    if map_key(key) in mapping:
        raise EvaluationError(f"insert failed: key {show(key)} already exists")
    return {**mapping, map_key(key): value}


def insert_all(mapping: dict[Value, Value], entries: dict[Value, Value]) -> Value:
    """Return a copy of the map with the entries of another map added. Raises EvaluationError if a key exists in both."""
    for key in entries:
        if key in mapping:
            raise EvaluationError(f"insert failed: key {show(key)} already exists")
    return {**mapping, **entries}


def _of_each(template: str, run: Callable[..., Value], result: Type | None = None) -> list[Overload]:
    """Return one overload per comparable element type; `template` is the pattern of the overload ids."""
    return [method(template.format(name), (list_of(kind),), result or kind, run) for name, kind in _COMPARABLE.items()]


_A, _T, _K, _V = param("A"), param("T"), param("K"), param("V")
_LIST, _MAP = list_of(_T), map_of(_K, _V)
_SUMMABLE = {name: _COMPARABLE[name] for name in _ZEROS}

FUNCTIONS = (
    function("isSorted", *_of_each("list_{}_is_sorted_bool", _is_sorted, types.BOOL), price=LIST_PASS),
    function(
        "sum",
        *(method(f"list_{name}_sum_{name}", (list_of(of),), of, _sum(_ZEROS[name])) for name, of in _SUMMABLE.items()),
        price=LIST_PASS,
    ),
    function("max", *_of_each("list_{0}_max_{0}", _extreme("max", -1)), price=LIST_PASS),
    function("min", *_of_each("list_{0}_min_{0}", _extreme("min", 1)), price=LIST_PASS),
    function("indexOf", method("list_a_index_of_int", (list_of(_A), _A), types.INT, _index_of), price=LIST_PASS),
    function(
        "lastIndexOf", method("list_a_last_index_of_int", (list_of(_A), _A), types.INT, _last_index_of), price=LIST_PASS
    ),
)

INCLUDES = (
    function(
        "includes", method("list_includes_dyn_dyn", (types.DYN, types.DYN), types.BOOL, includes), price=INCLUSION
    ),
)

SETS = (
    function(
        "sets.contains", overload("list_sets_contains_list", (_LIST, _LIST), types.BOOL, _contains_all, price=SET_PASS)
    ),
    function(
        "sets.equivalent",
        overload("list_sets_equivalent_list", (_LIST, _LIST), types.BOOL, _equivalent, price=TWO_SET_PASSES),
    ),
    function(
        "sets.intersects",
        overload("list_sets_intersects_list", (_LIST, _LIST), types.BOOL, _intersects, price=SET_PASS),
    ),
)

EXTENSION = (
    function("slice", method("list_slice", (_LIST, types.INT, types.INT), _LIST, _slice, price=SLICE)),
    function(
        "flatten",
        method("list_flatten", (list_of(_LIST),), _LIST, _flatten, price=FLATTENING),
        method("list_flatten_int", (list_of(types.DYN), types.INT), list_of(types.DYN), _flatten, price=FLATTENING),
    ),
    function(
        "sort",
        *(
            method(f"list_{of.name}_sort", (list_of(of),), list_of(of), _sort, price=sorting(of))
            for of in _COMPARABLE.values()
        ),
    ),
    function(
        "@sortByAssociatedKeys",
        *(
            method(
                f"list_{of.name}_sortByAssociatedKeys", (_LIST, list_of(of)), _LIST, _sort_by_keys, price=sorting_by(of)
            )
            for of in _COMPARABLE.values()
        ),
    ),
    function("lists.range", overload("lists_range", (types.INT,), list_of(types.INT), _range, price=COUNTING)),
    function("reverse", method("list_reverse", (_LIST,), _LIST, _reverse, price=REVERSAL)),
    function("distinct", method("list_distinct", (_LIST,), _LIST, _distinct, price=DISTINCT)),
)

MAP_INSERTION = (
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, insert),
        overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all),
    ),
)
