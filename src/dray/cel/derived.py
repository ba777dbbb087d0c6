"""Attributes that a request computes of a device: an expression whose value is a string, a number, a yes or no, a version,
or a list of one of these.

They see the same device as a selector does, and cost as much. Left out: what constraints make of the values.
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
    """One value of an attribute, written as a ResourceSlice writes it; `kind` is the field that would hold it."""

    kind: str
    content: str | int | bool


class DerivedValue(NamedTuple):
    """What an attribute is for a device: one value, or those of a list."""

    values: tuple[AttributeValue, ...]
    is_list: bool = False


class DerivedAttribute:
    """A compiled expression. Immutable, and safe to share."""

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
        """What the attribute is for a device.

        Raises EvaluationError where there is none, CompileError where the expression did not compile, and Interrupted.
        """
        found, _ = self.judge(device, interrupt=interrupt)
        if isinstance(found, EvaluationError):
            raise found
        return found

    def judge(
        self, device: DeviceView, *, interrupt: Interrupt | None = None
    ) -> tuple[DerivedValue | EvaluationError, int]:
        """What the attribute is for a device, or why there is none; and the steps of finding out.

        The steps depend on the expression and the device only. Raises Interrupted, and CompileError.
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
    """The attribute of an expression; look at its `error` before using it."""
    return DerivedAttribute(expression, features)
