"""Derived device attributes: CEL expressions of a request that compute an attribute value for a device.

The value is a string, integer, bool or version, or a list of values of one of these types. The expressions use
the same variables and cost limit as selectors. How constraints use the values is not part of this module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from dray.api.semver import Semver
from dray.cel.cost import estimate_cost
from dray.cel.device import DeviceView
from dray.cel.environment import DEFAULT_FEATURES, CelFeatures, device_environment
from dray.cel.errors import CompileError, EvaluationError, Interrupted
from dray.cel.expression import checked_tree, run
from dray.cel.limits import MAX_COST, Interrupt
from dray.cel.planner import plan
from dray.cel.ranges import UNBOUNDED
from dray.cel.sizes import DeviceSizes
from dray.cel.stack import deep_stack
from dray.cel.steps import CostMeter, Step
from dray.cel.types import ANY, BOOL, DYN, INT, SEMVER, STRING, list_of
from dray.cel.values import Uint, Value, type_name, valid_text

_SCALARS = (BOOL, INT, STRING, ANY, DYN, SEMVER)
_LISTS = tuple(list_of(scalar) for scalar in _SCALARS)
_KEPT = 256
_SCALAR = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


class AttributeValue(NamedTuple):
    """One attribute value as in a ResourceSlice; `kind` is the name of the field that holds `content`."""

    kind: str
    content: str | int | bool


class DerivedValue(NamedTuple):
    """The value of a derived attribute for one device: a single value, or the elements of a list."""

    values: tuple[AttributeValue, ...]
    is_list: bool = False


class DerivedAttribute:
    """A compiled derived attribute. Immutable and thread-safe. `error` is set if the expression did not compile."""

    __slots__ = ("_step", "error", "expression", "max_cost", "may_be_list")

    def __init__(self, expression: str, features: CelFeatures = DEFAULT_FEATURES) -> None:
        self.expression = expression
        self.error: CompileError | None = None
        self.max_cost = UNBOUNDED
        self.may_be_list = False
        self._step: Step | None = None
        try:
            with deep_stack():
                self._compile(valid_text(expression), features)
        except CompileError as error:
            self.error = error

    def _compile(self, text: str, features: CelFeatures) -> None:
        environment = device_environment(features)
        tree = checked_tree(text, environment)
        found = tree.checked_type
        if found not in _SCALARS + _LISTS:
            raise CompileError(f"{_SCALAR} or a list of these scalars, not {found.declared()}")
        self.may_be_list = found in _LISTS
        self._step = plan(tree, environment)
        self.max_cost = estimate_cost(tree, DeviceSizes(features))

    def values(self, device: DeviceView, *, interrupt: Interrupt | None = None) -> DerivedValue:
        """Return the value of the attribute for a device.

        Raises EvaluationError if the expression fails for the device, CompileError if it did not compile, and
        Interrupted.
        """
        found, _ = self.judge(device, interrupt=interrupt)
        if isinstance(found, EvaluationError):
            raise found
        return found

    def judge(
        self, device: DeviceView, *, interrupt: Interrupt | None = None
    ) -> tuple[DerivedValue | EvaluationError, int]:
        """Return the value of the attribute for a device, or the evaluation error, and the number of steps.

        The number of steps depends only on the expression and the device. `interrupt` is called regularly. Raises
        Interrupted if it returns True, and CompileError if the expression did not compile.
        """
        if self._step is None:
            raise self.error or AssertionError("compiled without steps")
        meter = CostMeter(MAX_COST, interrupt)
        try:
            return self._values(device, meter), meter.steps
        except Interrupted:
            raise
        except EvaluationError as error:
            return error, meter.steps

    def _values(self, device: DeviceView, meter: CostMeter) -> DerivedValue:
        if device.error is not None:
            raise EvaluationError(device.error)
        assert self._step is not None
        found = run(self._step, {"device": device.variable}, meter)
        if isinstance(found, EvaluationError):
            raise found
        return DerivedValue(_values(found), is_list=True) if isinstance(found, list) else DerivedValue((_value(found),))


def _values(found: list[Value]) -> tuple[AttributeValue, ...]:
    values = tuple(map(_value, found))
    for place, value in enumerate(values):
        if value.kind != values[0].kind:
            raise EvaluationError(f"expected list element at index {place} to be {values[0].kind}, got {value.kind}")
    return values


def _value(found: Value) -> AttributeValue:
    if isinstance(found, bool):
        return AttributeValue("bool", found)
    if isinstance(found, int) and not isinstance(found, Uint):
        return AttributeValue("int", found)
    if isinstance(found, str):
        return AttributeValue("string", found)
    if isinstance(found, Semver):
        return AttributeValue("version", str(found))
    raise EvaluationError(f"unsupported CEL return type: {type_name(found)}")


@lru_cache(maxsize=_KEPT)
def compile_derived(expression: str, *, features: CelFeatures = DEFAULT_FEATURES) -> DerivedAttribute:
    """Compile an expression, or return it from a cache. Callers must check `error` before they evaluate it."""
    return DerivedAttribute(expression, features)
