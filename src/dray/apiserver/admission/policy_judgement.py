"""A compiled admission policy, and what it says about a request.

An expression that has no value counts as a refusal or not, as the policy's failure policy says. An evaluation fails when
it has cost too much, as in Kubernetes. One that takes more than 10 ms is made in another process.
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
    """Why a policy refuses; `reason` is that of the answer."""

    message: str
    reason: str = INVALID


class PolicyVerdict(NamedTuple):
    """What a policy says: `refusals` are acted upon as a binding says, `faults` always refuse the request."""

    refusals: list[PolicyRefusal]
    faults: list[PolicyRefusal]


class _Check(NamedTuple):
    validation: Validation
    expression: Expression
    message: Expression | None


class Policy(CompiledPolicy):
    """A validating policy."""

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
        """The refusal that a failure amounts to, if it does."""
        return [] if self.ignores_failures else [PolicyRefusal(text)]

    def judge(self, read: ReadVariable, interrupt: Interrupt) -> PolicyVerdict:
        """What the policy says; `read` gives the request's values by the names of variables. Raises what interrupts."""
        try:
            if not self.conditions.hold(read, interrupt):
                return PolicyVerdict([], [])
            refusals = list(self._refusals(self.evaluation(read, interrupt)))
            faults = list(self._faults(self.evaluation(read, interrupt)))
        except (ConditionsFailed, OutOfBudget) as error:
            return PolicyVerdict(self.failure(str(error)), [])
        return PolicyVerdict(refusals, faults)

    def _refusals(self, evaluation: Evaluation) -> Iterator[PolicyRefusal]:
        for check in self._checks:
            value, error = evaluate(evaluation, check.expression)
            if error is not None:
                yield from self.failure(error)
            elif value is not True:
                yield PolicyRefusal(_message(evaluation, check), check.validation.reason or INVALID)

    def _faults(self, evaluation: Evaluation) -> Iterator[PolicyRefusal]:
        """Annotations go into no audit log, since there is none; that they can be made is still asked for."""
        for annotation in self._annotations:
            _, error = evaluate(evaluation, annotation)
            if error is not None:
                yield from self.failure(error)


def judge_policy(policy: ValidatingAdmissionPolicy, read: ReadVariable, interrupt: Interrupt) -> PolicyVerdict:
    """What a policy that is not compiled yet says."""
    return Policy(policy).judge(read, interrupt)


def _message(evaluation: Evaluation, check: _Check) -> str:
    value = evaluate(evaluation, check.message)[0] if check.message is not None else None
    if isinstance(value, str):
        text = value.strip()
        if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE:
            return text
    return check.validation.message.strip() or f"failed expression: {check.validation.expression.strip()}"
