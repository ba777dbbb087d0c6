"""Expressions of any environment: from text to steps, and from steps to a value.

Compiling never raises: an expression that does not compile says so in `error`. What expressions are about, and what they
may see, is told by whoever compiles them: `selector` for devices, `admission` for policies.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.cel.ast import AstNode
from dray.cel.checker import check
from dray.cel.declarations import Environment
from dray.cel.errors import CelIssue, CompileError, EvaluationError, Interrupted, Problems
from dray.cel.limits import MAX_COST, MAX_POINTS, Interrupt
from dray.cel.parser import parse
from dray.cel.planner import plan
from dray.cel.source import Source
from dray.cel.stack import deep_stack
from dray.cel.steps import CostMeter, Step, VariableScope
from dray.cel.types import DYN, Type
from dray.cel.validators import validate
from dray.cel.values import Value, valid_text


@dataclass(frozen=True, slots=True)
class Result:
    """What an evaluation gave, and what it cost: `value`, unless there is an `error`."""

    value: Value
    error: str | None
    cost: int


class Expression:
    """A compiled expression of one of some types; of any type, if none is named."""

    __slots__ = ("_step", "error", "text", "type")

    def __init__(self, text: str, environment: Environment, returns: tuple[Type, ...] = ()) -> None:
        self.text = text
        self.error: CompileError | None = None
        self.type = DYN
        self._step: Step | None = None
        try:
            with deep_stack():
                tree = checked_tree(valid_text(text), environment)
                self.type = _returned(tree.checked_type, returns)
                self._step = plan(tree, environment)
        except CompileError as error:
            self.error = error

    def evaluate(self, values: dict[str, Value], interrupt: Interrupt | None = None) -> Result:
        """The value for these variables. Raises Interrupted, and CompileError where it did not compile."""
        if self._step is None:
            raise self.error or AssertionError("compiled without steps")
        meter = CostMeter(MAX_COST, interrupt)
        value = run(self._step, values, meter)
        if isinstance(value, EvaluationError):
            return Result(None, str(value), meter.cost)
        return Result(value, None, meter.cost)


def checked_tree(text: str, environment: Environment) -> AstNode:
    """Parse and check; raises CompileError."""
    try:
        if len(text) > MAX_POINTS:
            raise Problems(CelIssue(f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_POINTS}"))
        tree = parse(text)
        check(tree, environment)
        validate(tree, environment)
    except Problems as problems:
        report = Source(text).report(problems)
        raise CompileError(f"compilation failed: {report}", report=report) from problems
    return tree


def run(step: Step, values: dict[str, Value], meter: CostMeter) -> Value:
    """The value of an expression, or the error that it has instead of one; raises Interrupted."""
    try:
        with deep_stack():
            return step.run(VariableScope(meter, values))
    except Interrupted:
        raise
    except EvaluationError as error:
        return error
    except Exception as error:  # whatever an expression manages to break stays inside its evaluation
        return EvaluationError(f"internal error: {error}")


def _returned(found: Type, returns: tuple[Type, ...]) -> Type:
    if returns and found not in returns:
        wanted = [one.declared() for one in returns]
        text = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        raise CompileError(f"must evaluate to {text} but got {found.declared()}")
    return found
