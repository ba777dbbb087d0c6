"""Costs of function calls: the charge after a call, and the estimate before evaluation.

The declaration of a function or overload (in `library`) names its price; without a price, a call costs one. The
charge is computed from the arguments and the result of a call. An evaluation ends when its charges exceed the
limit, whatever was estimated. The estimate is the cost of a call without its arguments, and the size of its
result if known. The figures decide whether the API accepts an object, so they equal those of Kubernetes in every
detail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from dray.cel import types
from dray.cel.ast import AstNode, Literal
from dray.cel.limits import REGEX_COST_FACTOR, TEXT_COST_FACTOR
from dray.cel.ranges import ONE, UNBOUNDED, UNKNOWN, Range, fixed
from dray.cel.types import Kind, Type
from dray.cel.values import RIGID, CelAuthorizer, Format, Optional, Value, size_for_cost

if TYPE_CHECKING:
    from dray.cel.sizes import SizePath, Sizes

_ADDRESS_SIZE = Range(4, 16)
_MAX_FORMAT_REGEX = 128
_MAX_FORMAT_NAME = 64
_LIST_COST = 10
_CHECK_COST = 350_000  # an expression can call the authorizer at most twice


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """Estimated cost of a call, and the size of its result or None if the size is unknown."""

    cost: Range
    size: Range | None = None


class Argument(msgspec.Struct, frozen=True, gc=False):
    """Static information about an argument of a call; `node` is None for the elements of another argument."""

    node: AstNode | None
    type: Type
    path: SizePath
    computed_size: Range | None
    declared: Sizes

    @property
    def known_size(self) -> Range:
        """The size range that follows from the expression alone; unbounded if unknown."""
        return UNKNOWN if self.computed_size is None else self.computed_size

    @property
    def size(self) -> Range:
        """The size range that follows from the expression or from declared sizes; unbounded if unknown."""
        if self.computed_size is not None:
            return self.computed_size
        declared = self.declared.size(self.path)
        return UNKNOWN if declared is None else declared

    @property
    def element(self) -> Argument | None:
        """The elements of a list, or the keys of a map (as in Kubernetes). None if the type has no parameters."""
        if not self.type.params:
            return None
        path = (*self.path, "@items") if self.path else ()
        return Argument(None, self.type.params[0], path, None, self.declared)

    def integer(self, default: int) -> int:
        """Return the value of an int literal, at least zero, or `default` for any other expression."""
        if isinstance(self.node, Literal) and self.node.value.__class__ is int:
            return max(0, self.node.value)
        return default


Charge: TypeAlias = Callable[[str, Sequence[Value], Value], int]
"""(overload id, argument values, result) → cost; the id is empty if the overload was selected at run time."""
Estimator: TypeAlias = "Callable[[str, Argument | None, Sequence[Argument]], Estimate | None]"
"""(overload id, target of a method, other arguments) → estimate; None means cost one and unknown size."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a function: its actual charge and its estimate. None for either means a cost of one."""

    charge: Charge | None = None
    estimate: Estimator | None = None


def _operands(target: Argument | None, arguments: Sequence[Argument]) -> list[Argument]:
    return [*arguments] if target is None else [target, *arguments]


# Texts


def _pass(size: int, factor: float = TEXT_COST_FACTOR) -> int:
    return math.ceil(size * factor)


def _size(value: Value) -> int:
    if isinstance(value, Optional) and value.present:
        return _size(value.value)
    return size_for_cost(value)


def _known(target: Argument | None, arguments: Sequence[Argument], position: int) -> Range:
    return _operands(target, arguments)[position].known_size


def _reading(position: int, result: Callable[[Range], Range] | None = None) -> Price:
    """Return the price of one pass over the string at this argument; `result` computes the size of the result."""

    def estimate(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
        size = _known(target, arguments, position)
        return Estimate(size.scaled(TEXT_COST_FACTOR), result(size) if result else None)

    return Price(lambda overload, args, made: _pass(_size(args[position])), estimate)


AFFIX = _reading(1)
FORMATTING = _reading(0)
QUOTING = _reading(0, lambda size: Range(size.least + 2, (size.most * 2 + 2) % 2**64))
TEXT_TO_BYTES = _reading(0, lambda size: Range(size.least, size.most * 4 % 2**64))
BYTES_TO_TEXT = _reading(0, lambda size: Range(size.least // 4, size.most))


def _text_comparison(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    most = min(argument.known_size.most for argument in arguments)
    return Estimate(Range(1 if most else 0, most).scaled(TEXT_COST_FACTOR))


def _equality(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    left, right = arguments
    if left.type.name == right.type.name:
        if left.type in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
            return Estimate(ONE)
        if left.type == types.FORMAT:
            return Estimate(Range(1, _MAX_FORMAT_NAME).scaled(TEXT_COST_FACTOR))
        if left.type == types.URL:
            most = right.computed_size.most if right.computed_size is not None else 1
            return Estimate(Range(1, most).scaled(TEXT_COST_FACTOR))
    return _text_comparison(overload, target, arguments)


def _compared(overload: str, args: Sequence[Value], result: Value) -> int:
    return _pass(min(_size(args[0]), _size(args[1])))


COMPARISON = Price(_compared, _text_comparison)
EQUALITY = Price(
    lambda overload, args, result: 1 if args[0].__class__ in RIGID else _compared(overload, args, result), _equality
)
MEMBERSHIP = Price(
    lambda overload, args, result: _size(args[1]),
    lambda overload, target, arguments: Estimate(_known(target, arguments, 1).scaled(1)),
)


def _joined_size(arguments: Sequence[Argument]) -> Range:
    return arguments[0].known_size + arguments[1].known_size


def _text_concatenation(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    size = _joined_size(arguments)
    return Estimate(size.scaled(TEXT_COST_FACTOR), size)


CONCATENATION = Price(lambda overload, args, result: _pass(_size(args[0]) + _size(args[1])), _text_concatenation)
LIST_CONCATENATION = Price(estimate=lambda overload, target, arguments: Estimate(ONE, _joined_size(arguments)))


def _search(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    text, pattern = (_known(target, arguments, position) for position in (0, 1))
    return Estimate(text.scaled(TEXT_COST_FACTOR) * pattern.scaled(TEXT_COST_FACTOR))


def _match(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    text, pattern = (_known(target, arguments, position) for position in (0, 1))
    return Estimate((text + ONE).scaled(TEXT_COST_FACTOR) * pattern.scaled(REGEX_COST_FACTOR))


SEARCH = Price(lambda overload, args, result: _pass(_size(args[0])) * _pass(_size(args[1])), _search)
MATCH = Price(
    lambda overload, args, result: _pass(1 + _size(args[0])) * _pass(_size(args[1]), REGEX_COST_FACTOR), _match
)


def _found(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None or not arguments:
        return None
    text = (target.size + ONE).scaled(TEXT_COST_FACTOR)
    return Estimate(text * arguments[0].size.scaled(REGEX_COST_FACTOR), Range(0, target.size.most))


FINDING = Price(
    lambda overload, args, result: _pass(1 + size_for_cost(args[0])) * _pass(size_for_cost(args[1]), REGEX_COST_FACTOR),
    _found,
)


def _first_pass(overload: str, args: Sequence[Value], result: Value) -> int:
    return _pass(size_for_cost(args[0]))


def _two_passes(overload: str, args: Sequence[Value], result: Value) -> int:
    return math.ceil(size_for_cost(args[0]) * 2 * TEXT_COST_FACTOR)


def _kept_text(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    return None if target is None else Estimate(target.size.scaled(TEXT_COST_FACTOR), target.size)


def _parsed_url(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    size = arguments[0].size
    return Estimate(size.scaled(TEXT_COST_FACTOR), size)


def _parsed(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    return Estimate(arguments[0].size.scaled(TEXT_COST_FACTOR))


TEXT_PASS = Price(_first_pass, _kept_text)
URL_PARSING = Price(_first_pass, _parsed_url)
PARSING = Price(_first_pass, _parsed)
CANONICAL = Price(
    _two_passes,
    lambda overload, target, arguments: Estimate(arguments[0].size.scaled(2 * TEXT_COST_FACTOR)),
)


def _replaced(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None or len(arguments) < 2:
        return None
    text, old, new = target.size, arguments[0].size, arguments[1].size
    most_times, most_kept = _replacements(text.most, old.least, longer=new.most > old.least)
    least_times, least_kept = _replacements(text.least, old.most, longer=new.least < old.most)
    size = Range(least_times, most_times) * new + Range(least_kept, most_kept)
    return Estimate(text.scaled(2 * TEXT_COST_FACTOR), size)


def _replacements(text: int, old: int, longer: bool) -> tuple[int, int]:
    """Return how often a part of size `old` can be replaced, and how much of the text then remains."""
    if old == 0:
        return min(text + 1, UNBOUNDED), text
    if not longer:
        return 0, text
    return min(math.ceil(text / old), UNBOUNDED), 0


def _split(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(arguments) > 1:
        limit = arguments[1].node
        if isinstance(limit, Literal) and limit.value.__class__ is int:
            most = int(limit.value) % 2**64
    return Estimate(target.size.scaled(2 * TEXT_COST_FACTOR), Range(0, most))


def _joined(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    count, element = target.size, target.element
    size = count * element.size if element else Range(0, 0)
    if arguments:
        size += arguments[0].size * Range(max(0, count.least - 1), max(0, count.most - 1))
    return Estimate(size.scaled(TEXT_COST_FACTOR), size)


REPLACEMENT = Price(_two_passes, _replaced)
SPLITTING = Price(_two_passes, _split)
JOINING = Price(lambda overload, args, result: math.ceil(size_for_cost(result) * 2 * TEXT_COST_FACTOR), _joined)


def _validated(overload: str, args: Sequence[Value], result: Value) -> int:
    if not isinstance(args[0], Format):
        return 1
    return _pass(1 + size_for_cost(args[1])) * _pass(args[0].regex_size, REGEX_COST_FACTOR)


def _validation(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    text = arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(text.scaled(_MAX_FORMAT_REGEX * REGEX_COST_FACTOR))


VALIDATION = Price(_validated, _validation)
AUTHORIZATION = Price(lambda overload, args, result: _CHECK_COST if isinstance(args[0], CelAuthorizer) else 1)


# Addresses


def _contained_ip(overload: str, args: Sequence[Value], result: Value) -> int:
    cost = _pass(2 * size_for_cost(args[0]))
    return cost + (_pass(size_for_cost(args[1])) if overload == "cidr_contains_ip_string" else 0)


def _containing_ip(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(TEXT_COST_FACTOR)
    if overload == "cidr_contains_ip_string":
        cost += arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(cost)


def _contained_cidr(overload: str, args: Sequence[Value], result: Value) -> int:
    size = size_for_cost(args[0])
    cost = _pass(2 * size) + _pass(size) + 1
    return cost + (_pass(size_for_cost(args[1])) if overload == "cidr_contains_cidr_string" else 0)


def _containing_cidr(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate:
    cost = (_ADDRESS_SIZE + _ADDRESS_SIZE).scaled(TEXT_COST_FACTOR) + _ADDRESS_SIZE.scaled(TEXT_COST_FACTOR) + ONE
    if overload == "cidr_contains_cidr_string":
        cost += arguments[0].size.scaled(TEXT_COST_FACTOR)
    return Estimate(cost)


ADDRESS_CONTAINMENT = Price(_contained_ip, _containing_ip)
NETWORK_CONTAINMENT = Price(_contained_cidr, _containing_cidr)


# Lists


def _leaves(overload: str, args: Sequence[Value], result: Value) -> int:
    return _traversal(args[0])


def _traversal(value: Value) -> int:
    """Return the cost of visiting every leaf of a value.

    A text costs its number of bytes times TEXT_COST_FACTOR, any other leaf 1.
    """
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


def _list_pass(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    element = target.element
    if element is None:
        return Estimate(target.size.scaled(TEXT_COST_FACTOR))
    each = ONE
    if element.type.kind in (Kind.STRING, Kind.BYTES):
        each += element.size.scaled(TEXT_COST_FACTOR)
    return Estimate(target.size * each)


def _inclusion(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is not None and target.element is None:
        return Estimate(target.size * ONE)
    return _list_pass(overload, target, arguments)


LIST_PASS = Price(_leaves, _list_pass)
INCLUSION = Price(_leaves, _inclusion)


def _charged_list(factor: float, size: int) -> int:
    return int(size * (1.0 if factor < 0 else factor)) + 1 + _LIST_COST


def _estimated_list(factor: float, count: Range) -> Estimate:
    """Return the estimate of creating a list: a pass over `count` elements, the call, and the list itself."""
    return Estimate(count.scaled(factor) + fixed(_LIST_COST) + ONE, count)


def _made_list(overload: str, args: Sequence[Value], result: Value) -> int:
    return _charged_list(1, size_for_cost(result))


def _slice(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    start, end = arguments[0].integer(0), arguments[1].integer(target.size.most)
    return _estimated_list(1, fixed((end - start) % 2**64))


SLICE = Price(_made_list, _slice)
COUNTING = Price(
    _made_list, lambda overload, target, arguments: _estimated_list(1, fixed(arguments[0].integer(UNBOUNDED)))
)
REVERSAL = Price(
    _made_list, lambda overload, target, arguments: None if target is None else _estimated_list(1, target.size)
)


def _flattened(overload: str, args: Sequence[Value], result: Value) -> int:
    depth = float(args[1]) if len(args) == 2 and isinstance(args[1], int) else 1.0
    return _charged_list(depth, size_for_cost(args[0]))


def _flattening(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    depth = arguments[0].integer(UNBOUNDED) if arguments else 1
    return _estimated_list(float(depth), target.size)


FLATTENING = Price(_flattened, _flattening)


def _compared_all(elements: Value) -> int:
    if not isinstance(elements, list) or not elements:
        return _charged_list(2, 0)
    factor = 2 + TEXT_COST_FACTOR if isinstance(elements[0], (str, bytes)) else 2
    return _charged_list(factor, len(elements) ** 2)


def _comparing_all(elements: Argument, of: Type) -> Estimate:
    size = elements.size
    return _estimated_list(2 + TEXT_COST_FACTOR if of.kind in (Kind.STRING, Kind.BYTES) else 2, size * size)


def _distinct(overload: str, target: Argument | None, arguments: Sequence[Argument]) -> Estimate | None:
    if target is None:
        return None
    return _comparing_all(target, target.type.params[0] if target.type.kind is Kind.LIST else types.DYN)


DISTINCT = Price(lambda overload, args, result: _compared_all(args[0]), _distinct)


def sorting(of: Type) -> Price:
    """Return the price of sorting a list whose elements have this type."""
    return Price(
        lambda overload, args, result: _compared_all(args[0]),
        lambda overload, target, arguments: None if target is None else _comparing_all(target, of),
    )


def sorting_by(of: Type) -> Price:
    """Return the price of sorting a list by keys of this type."""
    return Price(
        lambda overload, args, result: _compared_all(args[1]),
        lambda overload, target, arguments: None if target is None else _comparing_all(arguments[0], of),
    )


def _sets(factor: float) -> Price:
    return Price(
        lambda overload, args, result: 1 + int(size_for_cost(args[0]) * size_for_cost(args[1]) * factor),
        lambda overload, target, arguments: Estimate((arguments[0].size * arguments[1].size).scaled(factor) + ONE),
    )


SET_PASS = _sets(1)
TWO_SET_PASSES = _sets(2)
