"""A compiled validating policy, and its verdict on a request.

The failure policy decides whether an expression that fails counts as a denial. As in Kubernetes, an evaluation fails
if its cost exceeds the budget. Evaluations of more than 10 ms run in the worker process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, Validation
from dray.apiserver.admission.compiled_policies import CompiledPolicy
from dray.apiserver.admission.conditions import ConditionsFailed, evaluate
from dray.cel.admission import Evaluation, OutOfBudget, ReadVariable
from dray.cel.expression import Expression
from dray.cel.limits import Interrupt

LONGEST_MESSAGE = 5 * 1024
INVALID = "Invalid"


class PolicyRefusal(NamedTuple):
    """Why a policy denies a request; `reason` is the reason of the error's Status."""

    message: str
    reason: str = INVALID


class PolicyVerdict(NamedTuple):
    """Verdict of a policy. The binding's actions apply to `refusals`; `faults` always deny the request."""

    refusals: list[PolicyRefusal]
    faults: list[PolicyRefusal]


class _Check(NamedTuple):
    validation: Validation
    expression: Expression
    message: Expression | None


class Policy(CompiledPolicy):
    """A compiled validating policy."""

    def __init__(self, policy: ValidatingAdmissionPolicy) -> None:
        super().__init__(policy)
        self.source, spec, compiler = policy, policy.spec, self.compiler
        self._checks = [
            _Check(
                validation,
                compiler.compile("validation", validation.expression),
                compiler.compile("message", validation.messageExpression) if validation.messageExpression else None,
            )
            for validation in spec.validations
        ]
        self._annotations = [compiler.compile("annotation", one.valueExpression) for one in spec.auditAnnotations]

    def failure(self, text: str) -> list[PolicyRefusal]:
        """Return the denial for a failure, or an empty list if the failure policy is Ignore."""
        return [] if self.ignores_failures else [PolicyRefusal(text)]

    def judge(self, read: ReadVariable, interrupt: Interrupt) -> PolicyVerdict:
        """Return the verdict on a request; `read` returns the value of a variable by name.

        The verdict is empty if the match conditions do not hold. Raises any error of the interrupt.
        """
        try:
            if not self.conditions.hold(read, interrupt):
                return PolicyVerdict([], [])
            refusals = list(self._refusals(self.evaluation(read, interrupt)))
            faults = list(self._faults(self.evaluation(read, interrupt)))
        except (ConditionsFailed, OutOfBudget) as error:
            return PolicyVerdict(self.failure(str(error)), [])
        return PolicyVerdict(refusals, faults)

    def _refusals(self, evaluation: Evaluation) -> Iterator[PolicyRefusal]:
        """Yield a denial for each validation that is not true, and what the failure policy says for each that fails."""
        for check in self._checks:
            value, error = evaluate(evaluation, check.expression)
            if error is not None:
                yield from self.failure(error)
            elif value is not True:
                yield PolicyRefusal(_message(evaluation, check), check.validation.reason or INVALID)

    def _faults(self, evaluation: Evaluation) -> Iterator[PolicyRefusal]:
        """Yield what the failure policy says for each audit annotation that fails to evaluate.

        The values are not used, because there is no audit log.
        """
        for annotation in self._annotations:
            _, error = evaluate(evaluation, annotation)
            if error is not None:
                yield from self.failure(error)


def judge_policy(policy: ValidatingAdmissionPolicy, read: ReadVariable, interrupt: Interrupt) -> PolicyVerdict:
    """Compile a policy and return its verdict, in the worker process."""
    return Policy(policy).judge(read, interrupt)


def _message(evaluation: Evaluation, check: _Check) -> str:
    """Return the message of a failed validation: messageExpression if usable, else message, else the expression.

    A messageExpression is usable if it gives a text that is not blank, has one line and is not too long.
    """
    value = evaluate(evaluation, check.message)[0] if check.message is not None else None
    if isinstance(value, str):
        text = value.strip()
        if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE:
            return text
    return check.validation.message.strip() or f"failed expression: {check.validation.expression.strip()}"
