"""Compiles and evaluates expressions in any environment.

Compiling never raises an error: an expression that does not compile has its `error` set. The environment comes
from the callers: `selector` for devices, `admission` for policies.
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
    """Result of an evaluation: the value, or the error, and the cost."""

    value: Value
    error: str | None
    cost: int


class Expression:
    """A compiled expression whose result type must be one of `returns`, or any type if `returns` is empty."""

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
        """Evaluate the expression with these variables. An evaluation error is part of the result.

        Raises Interrupted, and CompileError if the expression did not compile.
        """
        if self._step is None:
            raise self.error or AssertionError("compiled without steps")
        meter = CostMeter(MAX_COST, interrupt)
        value = run(self._step, values, meter)
        if isinstance(value, EvaluationError):
            return Result(None, str(value), meter.cost)
        return Result(value, None, meter.cost)


def checked_tree(text: str, environment: Environment) -> AstNode:
    """Parse and type-check an expression. Returns its syntax tree.

    Raises CompileError with all problems if the expression is invalid or longer than MAX_POINTS characters.
    """
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
    """Evaluate a compiled expression. Returns its value, or the EvaluationError (not raised). Raises Interrupted."""
    try:
        with deep_stack():
            return step.run(VariableScope(meter, values))
    except Interrupted:
        raise
    except EvaluationError as error:
        return error
    except Exception as error:  # a bug that an expression triggers must only fail this evaluation
        return EvaluationError(f"internal error: {error}")


def _returned(found: Type, returns: tuple[Type, ...]) -> Type:
    if returns and found not in returns:
        wanted = [one.declared() for one in returns]
        text = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        raise CompileError(f"must evaluate to {text} but got {found.declared()}")
    return found
