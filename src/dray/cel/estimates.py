"""Estimated costs of the functions beyond the standard ones, by function name or by overload.

Each estimate is the cost of the call without its arguments, and the size of the result if it has
one. Functions of Kubernetes are looked up by name, whatever they are called on, as it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from dray.cel import types
from dray.cel.ast import AstNode, Literal
from dray.cel.limits import REGEX_COST_FACTOR, TEXT_COST_FACTOR
from dray.cel.ranges import ONE, UNBOUNDED, UNKNOWN, Range, fixed
from dray.cel.sizes import Path, Sizes
from dray.cel.types import SORTABLE, Kind, Type

_ADDRESS_SIZE = Range(4, 16)
_MAX_FORMAT_REGEX = 128
_MAX_FORMAT_NAME = 64
_LIST_COST = 10


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """The cost of a call, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


class Argument(msgspec.Struct, frozen=True, gc=False):
    """What is known of an argument; `node` is None for the elements of another."""

    node: AstNode | None
    type: Type
    path: Path
    computed_size: Range | None
    declared: Sizes

    @property
    def known_size(self) -> Range:
        """The size as far as the expression tells it."""
        return UNKNOWN if self.computed_size is None else self.computed_size

    @property
    def size(self) -> Range:
        """The size as far as the expression or the declarations tell it."""
        if self.computed_size is not None:
            return self.computed_size
        declared = self.declared.size(self.path)
        return UNKNOWN if declared is None else declared

    @property
    def element(self) -> Argument | None:
        """The elements of a list; also the keys of a map, as the reference has it."""
        if not self.type.params:
            return None
        path = (*self.path, "@items") if self.path else ()
        return Argument(None, self.type.params[0], path, None, self.declared)

    def integer(self, default: int) -> int:
        """The value of an int literal, at least zero; else the default."""
        if isinstance(self.node, Literal) and self.node.value.__class__ is int:
            return max(0, self.node.value)
        return default


Estimator = Callable[[str, Argument | None, list[Argument]], Estimate | None]
OverloadEstimator = Callable[[Argument | None, list[Argument]], Estimate | None]


def estimate_function(
    function: str, overload: str, target: Argument | None, arguments: list[Argument]
) -> Estimate | None:
    """The estimate by function name; None where the standard rules apply."""
    estimator = _FUNCTIONS.get(function)
    return estimator(overload, target, arguments) if estimator else None


def _nominal(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return Estimate(ONE)


def _list_pass(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    element = target.element
    if element is None:
        return Estimate(target.size.scaled(TEXT_COST_FACTOR))
    each = ONE
    if element.type.kind in (Kind.STRING, Kind.BYTES):
        each += element.size.scaled(TEXT_COST_FACTOR)
    return Estimate(target.size * each)


def _includes(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is not None and target.element is None:
        return Estimate(target.size * ONE)
    return _list_pass(overload, target, arguments)


def _first_argument_pass(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    size = arguments[0].size
    return Estimate(size.scaled(TEXT_COST_FACTOR), size)


def _target_pass(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    return Estimate(target.size.scaled(TEXT_COST_FACTOR), target.size)


def _replace(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None or len(arguments) < 2:
        return None
    text, old, new = target.size, arguments[0].size, arguments[1].size
    most_times, most_kept = _replacements(text.most, old.least, longer=new.most > old.least)
    least_times, least_kept = _replacements(text.least, old.most, longer=new.least < old.most)
    size = Range(least_times, most_times) * new + Range(least_kept, most_kept)
    return Estimate(text.scaled(2 * TEXT_COST_FACTOR), size)


def _replacements(text: int, old: int, longer: bool) -> tuple[int, int]:
    """How often a part can be replaced, and how much of the text is then kept."""
    if old == 0:
        return min(text + 1, UNBOUNDED), text
    if not longer:
        return 0, text
    return min(math.ceil(text / old), UNBOUNDED), 0


def _split(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(arguments) > 1:
        limit = arguments[1].node
        if isinstance(limit, Literal) and limit.value.__class__ is int:
            most = int(limit.value) % 2**64
    return Estimate(target.size.scaled(2 * TEXT_COST_FACTOR), Range(0, most))


def _join(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    count, element = target.size, target.element
    size = count * element.size if element else Range(0, 0)
    if arguments:
        size += arguments[0].size * Range(max(0, count.least - 1), max(0, count.most - 1))
    return Estimate(size.scaled(TEXT_COST_FACTOR), size)


def _find(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None or not arguments:
        return None
    text = (target.size + ONE).scaled(TEXT_COST_FACTOR)
    return Estimate(text * arguments[0].size.scaled(REGEX_COST_FACTOR), Range(0, target.size.most))


def _parse(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return Estimate(arguments[0].size.scaled(TEXT_COST_FACTOR))


def _ip(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return _parse(overload, target, arguments) if target is None else Estimate(ONE)


def _canonical(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return Estimate(arguments[0].size.scaled(2 * TEXT_COST_FACTOR))


def _contains_ip(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(TEXT_COST_FACTOR)
    if overload == "cidr_contains_ip_string":
        cost += arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(cost)


def _contains_cidr(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(TEXT_COST_FACTOR) + _ADDRESS_SIZE.scaled(TEXT_COST_FACTOR) + ONE
    if overload == "cidr_contains_cidr_string":
        cost += arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(cost)


def _validate(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    text = arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(text.scaled(_MAX_FORMAT_REGEX * REGEX_COST_FACTOR))


def _equals(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    left, right = arguments
    if left.type.name != right.type.name:
        return None
    if left.type in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
        return Estimate(ONE)
    if left.type == types.FORMAT:
        return Estimate(Range(1, _MAX_FORMAT_NAME).scaled(TEXT_COST_FACTOR))
    if left.type == types.URL:
        most = right.computed_size.most if right.computed_size is not None else 1
        return Estimate(Range(1, most).scaled(TEXT_COST_FACTOR))
    return None


_FUNCTIONS: dict[str, Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _list_pass),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target_pass),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        (
            *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"),
            *("allowed", "reason", "error", "errored"),
            *("masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
            *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
            *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan"),
            *("compareTo", "add", "sub", "major", "minor", "patch", "format.named"),
            *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
        ),
        _nominal,
    ),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parse),
    "ip.isCanonical": _canonical,
    "includes": _includes,
    "url": _first_argument_pass,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "ip": _ip,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
}


def _allocation(factor: float, count: Range) -> Estimate:
    """A new list: a pass over `count` elements, the call, and the list itself."""
    return Estimate(count.scaled(factor) + fixed(_LIST_COST) + ONE, count)


def _slice(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    start, end = arguments[0].integer(0), arguments[1].integer(target.size.most)
    return _allocation(1, fixed((end - start) % 2**64))


def _range(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return _allocation(1, fixed(arguments[0].integer(UNBOUNDED)))


def _reverse(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    return None if target is None else _allocation(1, target.size)


def _flatten(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    depth = arguments[0].integer(UNBOUNDED) if arguments else 1
    return _allocation(float(depth), target.size)


def _comparing(elements: Argument, text: bool) -> Estimate:
    size = elements.size
    return _allocation(2 + TEXT_COST_FACTOR if text else 2, size * size)


def _distinct(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    element = target.type.params[0] if target.type.kind is Kind.LIST else types.DYN
    return _comparing(target, element.kind in (Kind.STRING, Kind.BYTES))


def _sort(text: bool) -> OverloadEstimator:
    return lambda target, arguments: None if target is None else _comparing(target, text)


def _sort_by(text: bool) -> OverloadEstimator:
    return lambda target, arguments: None if target is None else _comparing(arguments[0], text)


def _sets(factor: float) -> OverloadEstimator:
    def estimate(target: Argument | None, arguments: list[Argument]) -> Estimate | None:
        return Estimate((arguments[0].size * arguments[1].size).scaled(factor) + ONE)

    return estimate


_TEXTS = (types.STRING, types.BYTES)

OVERLOADS: dict[str, OverloadEstimator] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
    **{f"list_{of.name}_sort": _sort(of in _TEXTS) for of in SORTABLE},
    **{f"list_{of.name}_sortByAssociatedKeys": _sort_by(of in _TEXTS) for of in SORTABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
