"""Declarations of functions: overloads for the checker, implementations for evaluation, and prices.

A call is bound to its implementation once, when the expression is compiled. If the checker found several matching
overloads, the runtime types of the values select one. If it found exactly one, the values are still checked,
because a device attribute can have any type.
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

Implementation = Callable[..., Value]
"""Implementation of a function: (values) → value, or (account, values) → value if marked as `metered`."""

BoundFunction = Callable[..., Value]
"""Implementation that always takes the account first: (account, values) → value."""

R = TypeVar("R", bound=Implementation)
_RECEIVERS = frozenset({str, Timestamp, Duration})  # for these types the error message omits the function name


_METERED: set[Implementation] = set()


def metered(run: R) -> R:
    """Mark a function as taking the effort account as its first argument. Returns the function."""
    _METERED.add(run)
    return run


def _bound(run: Implementation | None) -> BoundFunction:
    """Return the implementation with the effort account as first argument; unmetered functions ignore it."""
    assert run is not None
    return run if run in _METERED else lambda account, *args: run(*args)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; the first argument of a method is its target."""

    id: str
    args: tuple[Type, ...]
    result: Type
    method: bool = False
    run: Implementation | None = None
    price: Price | None = None  # None: the price of the function applies
    params: tuple[Type, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Set `params` to the type parameters of the signature, sorted by name."""
        names = {name for part in (self.result, *self.args) for name in _param_names(part)}
        object.__setattr__(self, "params", tuple(map(param, sorted(names))))

    def admits(self, args: tuple[Value, ...]) -> bool:
        """Return whether the number and types of the values fit the signature."""
        return len(args) == len(self.args) and all(map(admits, self.args, args))


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its overloads.

    `run` implements all overloads that have no implementation of their own; if `accepts` is given, the class of
    the first value must be in it. `guarded` says whether values are checked against the signature.
    """

    name: str
    overloads: tuple[Overload, ...]
    run: Implementation | None = None
    accepts: frozenset[type] | None = None
    guarded: bool = True
    price: Price | None = None  # for overloads without their own price; None: every call costs one
    generated: Implementation | None = (
        None  # called by generated code if the types of the values are not known statically
    )

    def merge(self, other: Function) -> Function:
        """Return a copy with the overloads of `other` added. Attributes of `other` fill in the ones that are not set."""
        return replace(
            self,
            overloads=self.overloads + other.overloads,
            run=self.run or other.run,
            price=self.price or other.price,
            generated=self.generated or other.generated,
        )

    def price_of(self, overload_id: str) -> Price | None:
        """Return the price of an overload, or of the function if the overload has none; None if neither has one."""
        own = next((overload.price for overload in self.overloads if overload.id == overload_id), None)
        return own or self.price

    def bind(self, overload_ids: tuple[str, ...]) -> BoundFunction:
        """Return the implementation of a call for which the checker found these overloads.

        If several are possible, the first that fits the arguments is called.
        """
        runnable = [overload for overload in self.overloads if overload.run]
        chosen = [overload for overload in runnable if overload.id in overload_ids]
        if len(chosen) == 1 and len(overload_ids) == 1:
            return self._checked(chosen[0])
        if self.run is not None:
            return self._shared(self.run)
        return self._checked(runnable[0]) if len(runnable) == 1 else self._dispatch(runnable)

    def unchecked(self, overload_id: str) -> Implementation | None:
        """Return the overload's own implementation without type checks and metering, or None.

        None if there is no overload of this ID or it has no implementation. A metered implementation is bound to
        UNMETERED.
        """
        run = next((overload.run for overload in self.overloads if overload.id == overload_id), None)
        return partial(run, UNMETERED) if run is not None and run in _METERED else run

    def _checked(self, overload: Overload) -> BoundFunction:
        run = _bound(overload.run)
        if not self.guarded:
            return run

        def checked(account: EffortAccount, *args: Value) -> Value:
            if not overload.admits(args):
                raise self._refusal(args)
            return run(account, *args)

        return checked

    def _shared(self, implementation: Implementation) -> BoundFunction:
        run = _bound(implementation)
        if self.accepts is None:
            return run
        accepted = self.accepts

        def shared(account: EffortAccount, first: Value, *rest: Value) -> Value:
            if first.__class__ not in accepted:
                raise NoSuchOverload("" if first.__class__ in _RECEIVERS else self.name)
            return run(account, first, *rest)

        return shared

    def _dispatch(self, overloads: list[Overload]) -> BoundFunction:
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
    """Return whether a value has a declared type. Only the first element of a list or map is checked.

    Every value has the types dyn and any, and that of a type parameter.
    """
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
    """Everything an expression can refer to: functions, variables, named types and the fields of structs.

    `made` names the structs that an expression can construct. `dynamic` names a struct that can be constructed
    with any fields; this includes nested names, for example `Object.spec` for `Object`.
    """

    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    made: frozenset[str] = frozenset()
    dynamic: str = ""

    def is_dynamic(self, name: str) -> bool:
        """Return whether the struct with this name can have any fields.

        True for the struct `dynamic` and for structs inside it, which are named with dots.
        """
        return bool(self.dynamic) and (name == self.dynamic or name.startswith(f"{self.dynamic}."))


def collect(libraries: Iterable[Iterable[Function]]) -> dict[str, Function]:
    """Return all functions by name. Overloads of functions with the same name are combined in library order."""
    functions: dict[str, Function] = {}
    for function in (function for library in libraries for function in library):
        known = functions.get(function.name)
        functions[function.name] = known.merge(function) if known else function
    return functions


def method(
    id: str, args: Iterable[Type], result: Type, run: Implementation | None = None, price: Price | None = None
) -> Overload:
    """Return an overload that is called as a method of its first argument."""
    return Overload(id, tuple(args), result, True, run, price)


def overload(
    id: str, args: Iterable[Type], result: Type, run: Implementation | None = None, price: Price | None = None
) -> Overload:
    """Return an overload that is called as a plain function."""
    return Overload(id, tuple(args), result, False, run, price)


def succeeds(run: Implementation) -> Implementation:
    """Return a function that returns whether `run` raises no EvaluationError; implements tests like `isURL`.

    Other exceptions are raised.
    """

    def test(*args: Value) -> Value:
        try:
            run(*args)
        except EvaluationError:
            return False
        return True

    return test


def function(
    name: str, *overloads: Overload, price: Price | None = None, generated: Implementation | None = None
) -> Function:
    """Return a function whose overloads each have their own implementation."""
    return Function(name, overloads, price=price, generated=generated)
