"""Compiled device selectors: from the text of an expression to whether a device matches.

Compiling never raises an error: a selector that does not compile has its `error` set, and raises it when it is
evaluated. Compiled selectors are cached, because a cluster has few different selectors and evaluates them for
many devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dray.cel.ast import AstNode
from dray.cel.codegen import generate
from dray.cel.cost import estimate_cost
from dray.cel.device import DeviceView
from dray.cel.environment import DEFAULT_FEATURES, CelFeatures, attribute_type, device_environment
from dray.cel.errors import CompileError, EvaluationError, Interrupted
from dray.cel.expression import checked_tree, run
from dray.cel.limits import MAX_COST, MAX_LENGTH, SHORT_LENGTH, STEP_ESTIMATE, Interrupt
from dray.cel.planner import plan
from dray.cel.ranges import UNBOUNDED
from dray.cel.sizes import DeviceSizes
from dray.cel.stack import deep_stack
from dray.cel.steps import CostMeter, Step
from dray.cel.types import BOOL
from dray.cel.values import Value, type_name, valid_text

_SHORT_KEPT = 1024
_LONG_KEPT = 32
_FAST_COST = 50_000

_CONVERSION_COMPLAINTS = {
    "int": "unsupported type conversion from 'int' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an evaluation: `match`, or `error` if it failed, and the cost."""

    match: bool | None
    error: str | None
    cost: int


class Selector:
    """A compiled selector. Immutable and thread-safe."""

    __slots__ = ("_fast", "_step", "error", "expression", "max_cost")

    def __init__(self, expression: str, features: CelFeatures = DEFAULT_FEATURES) -> None:
        self.expression = expression
        text = valid_text(expression)
        self.error: CompileError | None = None
        self.max_cost = UNBOUNDED
        self._step: Step | None = None
        self._fast: Callable[[DeviceView, Interrupt | None], Value] | None = None
        try:
            with deep_stack():
                self._compile(text, features)
        except CompileError as error:
            self.error = error

    def _compile(self, text: str, features: CelFeatures) -> None:
        environment = device_environment(features)
        tree = _checked_tree(text, features)
        self._step = plan(tree, environment)
        self.max_cost = estimate_cost(tree, DeviceSizes(features))
        # Generated code is not metered, so it is used only for cheap expressions, and only if generating is quick.
        if self.max_cost <= _FAST_COST and len(text) <= SHORT_LENGTH:
            self._fast = generate(tree, environment)

    def matches(self, device: DeviceView, *, interrupt: Interrupt | None = None) -> bool:
        """Return whether the device matches. Raises EvaluationError if the expression fails for the device.

        `interrupt` is called regularly; if it returns True, the evaluation raises Interrupted. Raises
        CompileError if the selector did not compile.
        """
        answer, _ = self.judge(device, interrupt=interrupt)
        if isinstance(answer, EvaluationError):
            raise answer
        return answer

    def judge(self, device: DeviceView, *, interrupt: Interrupt | None = None) -> tuple[bool | EvaluationError, int]:
        """Return whether the device matches, or the evaluation error, and the number of steps.

        The number of steps depends only on the expression and the device. `interrupt` is called regularly. Raises
        Interrupted if it returns True, and CompileError if the selector did not compile.
        """
        fast = self._fast
        if fast is not None and device.error is None:
            try:
                result = fast(device, interrupt)
            except Interrupted:
                raise
            except Exception:  # the interpreter evaluates the expression again and reports the error, if any
                pass
            else:
                if result is True or result is False:
                    return result, 1 + self.max_cost // STEP_ESTIMATE
        answer, meter = self._run(device, interrupt)
        return answer, meter.steps

    def evaluate(self, device: DeviceView, *, interrupt: Interrupt | None = None) -> Outcome:
        """Evaluate the selector with the interpreter. Returns the outcome with its cost; an evaluation error is
        part of it.

        Raises Interrupted, and CompileError if the selector did not compile.
        """
        answer, meter = self._run(device, interrupt)
        if isinstance(answer, EvaluationError):
            return Outcome(None, str(answer), meter.cost)
        return Outcome(answer, None, meter.cost)

    def _run(self, device: DeviceView, interrupt: Interrupt | None) -> tuple[bool | EvaluationError, CostMeter]:
        if self._step is None:
            raise self.error or AssertionError("compiled without steps")
        meter = CostMeter(MAX_COST, interrupt)
        if device.error is not None:
            return EvaluationError(device.error), meter
        result = run(self._step, {"device": device.variable}, meter)
        if result is True or result is False or isinstance(result, EvaluationError):
            return result, meter
        return _not_bool(result), meter


def _checked_tree(expression: str, features: CelFeatures) -> AstNode:
    """Parse and type-check a selector. Raises CompileError, also if the result type is not bool."""
    tree = checked_tree(expression, device_environment(features))
    result = tree.checked_type
    if result not in (BOOL, attribute_type(features)):
        raise CompileError(f"must evaluate to bool or the unknown type, not {result.declared()}")
    return tree


def _not_bool(value: Value) -> EvaluationError:
    name = type_name(value)
    reason = _CONVERSION_COMPLAINTS.get(name, f"type conversion error from '{name}' to 'bool'")
    return EvaluationError(f"CEL result of type {name} could not be converted to bool: {reason}")


def compile_selector(expression: str, *, features: CelFeatures = DEFAULT_FEATURES) -> Selector:
    """Compile a selector, or return it from a cache. Callers must check `error` before they evaluate it."""
    return (_short if len(expression) <= SHORT_LENGTH else _long)(expression, features)


# A compiled long expression takes one or two megabytes, so fewer of them are cached.
_short = lru_cache(maxsize=_SHORT_KEPT)(Selector)
_long = lru_cache(maxsize=_LONG_KEPT)(Selector)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why the API rejects an expression; `reason` is the reason of the field error."""

    reason: Literal["Invalid", "Forbidden", "InternalError"]
    detail: str


def check_selector(expression: str, *, features: CelFeatures = DEFAULT_FEATURES) -> Refusal | None:
    """Validate a selector for use in an API object. Returns None if it is valid, otherwise the refusal.

    Reasons are Invalid for length and compilation, Forbidden for an estimated cost above the limit, and
    InternalError.
    """
    if len(expression.encode(errors="surrogatepass")) > MAX_LENGTH:
        return Refusal("Invalid", f"may not be more than {MAX_LENGTH} bytes")
    selector = compile_selector(expression, features=features)
    if selector.error is not None:
        return Refusal("Invalid" if selector.error.kind == "RuleInvalid" else "InternalError", selector.error.detail)
    if selector.max_cost > MAX_COST:
        return Refusal("Forbidden", "too complex, exceeds cost limit")
    return None
