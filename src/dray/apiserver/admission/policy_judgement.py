"""A compiled admission policy, and what it says about a request.

An expression that has no value counts as a refusal or not, as the policy's failure policy says. An evaluation ends when
it has cost too much, as in Kubernetes, or taken too long: the server answers nobody else meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, Validation
from dray.cel.admission import BUDGET, CONDITIONS_BUDGET, Compiler, Evaluation, OutOfBudget, Read
from dray.cel.errors import Interrupted
from dray.cel.expression import Expression
from dray.cel.values import Value

SECONDS = 1.0  # what Kubernetes means its budget of cost to come to
LONGEST_MESSAGE = 5 * 1024
INVALID = "Invalid"


class Refusal(NamedTuple):
    """Why a policy refuses; `reason` is that of the answer."""

    message: str
    reason: str = INVALID


class Verdict(NamedTuple):
    """What a policy says: `refusals` are acted upon as a binding says, `faults` always refuse the request."""

    refusals: list[Refusal]
    faults: list[Refusal]


class _Failed(Exception):
    """The policy cannot be evaluated."""


class _Check(NamedTuple):
    validation: Validation
    expression: Expression
    message: Expression | None


class Policy:
    """A policy whose expressions are compiled."""

    def __init__(self, policy: ValidatingAdmissionPolicy) -> None:
        spec = self.spec = policy.spec
        self.name = policy.metadata.name
        self._ignores_failures = spec.failurePolicy == "Ignore"
        compiler = Compiler(params=spec.paramKind is not None, composed=bool(spec.variables))
        self._conditions = [compiler.compile("condition", condition.expression) for condition in spec.matchConditions]
        for variable in spec.variables:
            compiler.compile("variable", variable.expression, variable.name)
        self._variables = compiler.variables
        self._checks = [
            _Check(
                validation,
                compiler.compile("validation", validation.expression),
                compiler.compile("message", validation.messageExpression) if validation.messageExpression else None,
            )
            for validation in spec.validations
        ]
        self._annotations = [compiler.compile("annotation", one.valueExpression) for one in spec.auditAnnotations]

    def failure(self, text: str) -> list[Refusal]:
        """The refusal that a failure amounts to, if it does."""
        return [] if self._ignores_failures else [Refusal(text)]

    def judge(self, read: Read) -> Verdict:
        """What the policy says; `read` gives the request's values by the names of variables."""
        deadline = time.monotonic() + SECONDS
        try:
            if not self._applies(Evaluation(_without_namespace(read), {}, CONDITIONS_BUDGET, deadline)):
                return Verdict([], [])
            refusals = list(self._refusals(Evaluation(read, self._variables, BUDGET, deadline)))
            faults = list(self._faults(Evaluation(read, self._variables, BUDGET, deadline)))
        except (_Failed, OutOfBudget) as error:
            return Verdict(self.failure(str(error)), [])
        return Verdict(refusals, faults)

    def _applies(self, evaluation: Evaluation) -> bool:
        """One condition that does not hold decides, whatever the others; only then do failures count."""
        errors = []
        for condition in self._conditions:
            value, error = _evaluate(evaluation, condition)
            if error is not None:
                errors.append(error)
            elif value is False:
                return False
        if errors:
            raise _Failed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return True

    def _refusals(self, evaluation: Evaluation) -> Iterator[Refusal]:
        for check in self._checks:
            value, error = _evaluate(evaluation, check.expression)
            if error is not None:
                yield from self.failure(error)
            elif value is not True:
                yield Refusal(_message(evaluation, check), check.validation.reason or INVALID)

    def _faults(self, evaluation: Evaluation) -> Iterator[Refusal]:
        """Annotations go into no audit log, since there is none; that they can be made is still asked for."""
        for annotation in self._annotations:
            _, error = _evaluate(evaluation, annotation)
            if error is not None:
                yield from self.failure(error)


def _without_namespace(read: Read) -> Read:
    """Conditions are evaluated before anybody looks for the namespace."""
    return lambda name: None if name == "namespaceObject" else read(name)


def _evaluate(evaluation: Evaluation, expression: Expression) -> tuple[Value, str | None]:
    """The value, or what is wrong instead."""
    if expression.error is not None:
        return None, f"compilation error: {expression.error.detail}"
    try:
        result = evaluation.evaluate(expression)
    except Interrupted as error:
        return None, f"expression '{expression.text}' resulted in error: {error}"
    if result.error is not None:
        return None, f"expression '{expression.text}' resulted in error: {result.error}"
    return result.value, None


def _message(evaluation: Evaluation, check: _Check) -> str:
    value = _evaluate(evaluation, check.message)[0] if check.message is not None else None
    if isinstance(value, str):
        text = value.strip()
        if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE:
            return text
    return check.validation.message.strip() or f"failed expression: {check.validation.expression.strip()}"
