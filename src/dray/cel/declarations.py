"""How functions are declared: overloads for the checker, implementations for evaluation, and prices.

A call is bound once, when an expression is compiled. Where the checker could not settle on one
overload, the values decide at run time; where it could, the values are still checked, since an
attribute may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dray.cel.errors import EvaluationError, NoSuchOverload
from dray.cel.limits import UNMETERED, EffortAccount
from dray.cel.prices import Price
from dray.cel.types import Kind, Type, param
from dray.cel.values import Duration, Timestamp, Value, type_name, type_of

Run = Callable[..., Value]
"""(values) → value; of a `metered` function (account, values) → value."""

Bound = Callable[..., Value]
"""(account, values) → value."""

R = TypeVar("R", bound=Run)
_RECEIVERS = frozenset({str, Timestamp, Duration})  # types that are asked themselves before a call is given up


_METERED: set[Run] = set()


def metered(run: R) -> R:
    """Mark a function that takes the account of effort before its values."""
    _METERED.add(run)
    return run


def _bound(run: Run | None) -> Bound:
    """A function that takes the account of effort, whether it needs it or not."""
    assert run is not None
    return run if run in _METERED else lambda account, *args: run(*args)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; the target of a method is its first argument."""

    id: str
    args: tuple[Type, ...]
    result: Type
    method: bool = False
    run: Run | None = None
    price: Price | None = None  # None: that of the function
    params: tuple[Type, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Collect the type parameters, in the order of their names."""
        names = {name for part in (self.result, *self.args) for name in _param_names(part)}
        object.__setattr__(self, "params", tuple(map(param, sorted(names))))

    def admits(self, args: tuple[Value, ...]) -> bool:
        """Whether the values fit the signature."""
        return len(args) == len(self.args) and all(map(admits, self.args, args))


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its overloads.

    `run` serves all overloads that have none of their own; then the class of the first value must
    be in `accepts`, if given. `guarded` says whether values are checked against the signature.
    """

    name: str
    overloads: tuple[Overload, ...]
    run: Run | None = None
    accepts: frozenset[type] | None = None
    guarded: bool = True
    price: Price | None = None  # whatever the function is called on; None: one
    generated: Run | None = None  # what generated code calls where the types of the values are not known before

    def merge(self, other: Function) -> Function:
        """The same function with more overloads."""
        return replace(
            self,
            overloads=self.overloads + other.overloads,
            run=self.run or other.run,
            price=self.price or other.price,
            generated=self.generated or other.generated,
        )

    def price_of(self, overload_id: str) -> Price | None:
        """The price of a call of one overload; the id is empty where the values decide."""
        own = next((overload.price for overload in self.overloads if overload.id == overload_id), None)
        return own or self.price

    def bind(self, overload_ids: tuple[str, ...]) -> Bound:
        """The implementation for a call that was checked to be one of these overloads."""
        runnable = [overload for overload in self.overloads if overload.run]
        chosen = [overload for overload in runnable if overload.id in overload_ids]
        if len(chosen) == 1 and len(overload_ids) == 1:
            return self._checked(chosen[0])
        if self.run is not None:
            return self._shared(self.run)
        return self._checked(runnable[0]) if len(runnable) == 1 else self._dispatch(runnable)

    def unchecked(self, overload_id: str) -> Run | None:
        """The implementation for values that are known to fit this overload, if it has one of its own; unmetered."""
        run = next((overload.run for overload in self.overloads if overload.id == overload_id), None)
        return partial(run, UNMETERED) if run is not None and run in _METERED else run

    def _checked(self, overload: Overload) -> Bound:
        run = _bound(overload.run)
        if not self.guarded:
            return run

        def checked(account: EffortAccount, *args: Value) -> Value:
            if not overload.admits(args):
                raise self._refusal(args)
            return run(account, *args)

        return checked

    def _shared(self, implementation: Run) -> Bound:
        run = _bound(implementation)
        if self.accepts is None:
            return run
        accepted = self.accepts

        def shared(account: EffortAccount, first: Value, *rest: Value) -> Value:
            if first.__class__ not in accepted:
                raise NoSuchOverload("" if first.__class__ in _RECEIVERS else self.name)
            return run(account, first, *rest)

        return shared

    def _dispatch(self, overloads: list[Overload]) -> Bound:
        runs = [(overload, _bound(overload.run)) for overload in overloads]

        def dispatch(account: EffortAccount, *args: Value) -> Value:
            for overload, run in runs:
                if overload.admits(args) if self.guarded else len(args) == len(overload.args):
                    return run(account, *args)
            raise self._refusal(args)

        return dispatch

    def _refusal(self, args: tuple[Value, ...]) -> NoSuchOverload:
        return NoSuchOverload(f"{self.name}({', '.join(map(type_name, args))})")


def admits(declared: Type, value: Value) -> bool:
    """Whether a value fits a declared type; of lists and maps the first element speaks for all."""
    if declared.kind in (Kind.DYN, Kind.ANY, Kind.PARAM):
        return True
    if type_of(value).name != declared.name:
        return False
    if isinstance(value, list):
        return not value or admits(declared.params[0], value[0])
    if isinstance(value, dict):
        return all(map(admits, declared.params, next(iter(value.items()), ())))
    return True


def _param_names(declared: Type) -> Iterable[str]:
    if declared.kind is Kind.PARAM:
        yield declared.name
    for part in declared.params:
        yield from _param_names(part)


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may refer to: functions, variables, the types that have a name, fields of structs.

    `made` names the structs that an expression can make. `dynamic` names a struct that it can make with any fields, and
    so can all whose names lead down from it: with `Object` also `Object.spec`.
    """

    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    made: frozenset[str] = frozenset()
    dynamic: str = ""

    def is_dynamic(self, name: str) -> bool:
        """Whether a struct of this name can have any fields."""
        return bool(self.dynamic) and (name == self.dynamic or name.startswith(f"{self.dynamic}."))


def collect(libraries: Iterable[Iterable[Function]]) -> dict[str, Function]:
    """All functions by name; overloads of one name add up in the order of the libraries."""
    functions: dict[str, Function] = {}
    for function in (function for library in libraries for function in library):
        known = functions.get(function.name)
        functions[function.name] = known.merge(function) if known else function
    return functions


def method(id: str, args: Iterable[Type], result: Type, run: Run | None = None, price: Price | None = None) -> Overload:
    """An overload that is called on its first argument."""
    return Overload(id, tuple(args), result, True, run, price)


def overload(
    id: str, args: Iterable[Type], result: Type, run: Run | None = None, price: Price | None = None
) -> Overload:
    """An overload that is called by name alone."""
    return Overload(id, tuple(args), result, False, run, price)


def succeeds(run: Run) -> Run:
    """Whether another function takes what it is given: the tests that stand beside conversions."""

    def test(*args: Value) -> Value:
        try:
            run(*args)
        except EvaluationError:
            return False
        return True

    return test


def function(name: str, *overloads: Overload, price: Price | None = None, generated: Run | None = None) -> Function:
    """A function whose overloads each have their own implementation."""
    return Function(name, overloads, price=price, generated=generated)
