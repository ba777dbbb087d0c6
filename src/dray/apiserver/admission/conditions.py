"""Match conditions: expressions that say which requests a policy or a webhook is about, where rules cannot.

One condition that does not hold decides, whatever the others; only then do failures count. An evaluation fails when it has
cost too much, as in Kubernetes. What takes more than 10 ms is evaluated in another process.
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
    """No condition says no, and not all could be evaluated."""


class Conditions:
    """The conditions of one policy or webhook, compiled."""

    def __init__(self, conditions: Sequence[MatchCondition], compiler: Compiler) -> None:
        self.source = conditions
        self._expressions = [compiler.compile("condition", condition.expression) for condition in conditions]

    def hold(self, read: ReadVariable, interrupt: Interrupt) -> bool:
        """Whether all hold; `read` gives the request's values by the names of variables.

        Raises ConditionsFailed, and what the interrupt raises.
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
    """Whether conditions hold. Raises ConditionsFailed, and Lacking if the worker process must evaluate them."""
    there = partial(_hold, conditions.source)
    return judged(known, id(conditions), read, conditions.hold, there, (name for name in VALUES if name != "params"))


def _hold(conditions: Sequence[MatchCondition], read: ReadVariable, interrupt: Interrupt) -> bool:
    return Conditions(conditions, Compiler(params=False, composed=False)).hold(read, interrupt)


def evaluate(evaluation: Evaluation, expression: Expression) -> tuple[Value, str | None]:
    """The value, or what is wrong instead. Raises what interrupts."""
    if expression.error is not None:
        return None, f"compilation error: {expression.error.detail}"
    result = evaluation.evaluate(expression)
    if result.error is not None:
        return None, f"expression '{expression.text}' resulted in error: {result.error}"
    return result.value, None


def _without_namespace(read: ReadVariable) -> ReadVariable:
    """Conditions are evaluated before anybody looks for the namespace."""
    return lambda name: None if name == "namespaceObject" else read(name)
