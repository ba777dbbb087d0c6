"""Match conditions: CEL expressions that decide which requests a policy or webhook handles, in addition to rules.

A single false condition excludes the request, whatever the others evaluate to; failures count only if no condition is
false. As in Kubernetes, an evaluation fails if its cost exceeds the budget. Evaluations of more than 10 ms run in the
worker process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dray.api.needs import KnownValues
from dray.api.types.admissionregistration import MatchCondition
from dray.apiserver.admission.judging import VALUES, JudgementFailed, judged
from dray.cel.admission import CONDITIONS_BUDGET, Compiler, Evaluation, OutOfBudget, ReadVariable
from dray.cel.expression import Expression
from dray.cel.limits import Interrupt
from dray.cel.values import Value


class ConditionsFailed(JudgementFailed):
    """No condition is false, and at least one could not be evaluated."""


class Conditions:
    """The compiled match conditions of one policy or webhook."""

    def __init__(self, conditions: Sequence[MatchCondition], compiler: Compiler) -> None:
        self.source = conditions
        self._expressions = [compiler.compile("condition", condition.expression) for condition in conditions]

    def hold(self, read: ReadVariable, interrupt: Interrupt) -> bool:
        """Return whether all conditions are true; `read` returns the value of a variable by name.

        Raises ConditionsFailed, and any error that `interrupt` raises.
        """
        if not self._expressions:
            return True
        evaluation = Evaluation(_without_namespace(read), {}, CONDITIONS_BUDGET, interrupt)
        errors = []
        for expression in self._expressions:
            try:
                value, error = evaluate(evaluation, expression)
            except OutOfBudget as exceeded:
                raise ConditionsFailed(str(exceeded)) from exceeded
            if error is not None:
                errors.append(error)
            elif value is False:
                return False
        if errors:
            raise ConditionsFailed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return True


def held(conditions: Conditions, read: ReadVariable, known: KnownValues) -> bool:
    """Return whether the conditions are true.

    Raises ConditionsFailed, and Lacking if the worker process must evaluate them.
    """
    there = partial(_hold, conditions.source)
    return judged(known, id(conditions), read, conditions.hold, there, (name for name in VALUES if name != "params"))


def _hold(conditions: Sequence[MatchCondition], read: ReadVariable, interrupt: Interrupt) -> bool:
    """Compile conditions in the worker process. Returns whether all are true. Raises ConditionsFailed."""
    return Conditions(conditions, Compiler(params=False, composed=False)).hold(read, interrupt)


def evaluate(evaluation: Evaluation, expression: Expression) -> tuple[Value, str | None]:
    """Return the value of an expression and an error message.

    The message is None if the expression succeeded; otherwise the value is None. A successful expression may also
    have the value None. Raises any error of the interrupt.
    """
    if expression.error is not None:
        return None, f"compilation error: {expression.error.detail}"
    result = evaluation.evaluate(expression)
    if result.error is not None:
        return None, f"expression '{expression.text}' resulted in error: {result.error}"
    return result.value, None


def _without_namespace(read: ReadVariable) -> ReadVariable:
    """Return `read` with namespaceObject None, because match conditions are evaluated before the namespace is read."""
    return lambda name: None if name == "namespaceObject" else read(name)
