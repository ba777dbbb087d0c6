"""Admission policies with their bindings: with which bindings and parameters a policy is evaluated for a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from dray.api.errors import ApiError
from dray.api.types.admissionregistration import (
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.compiled_policies import CompiledPolicy
from dray.apiserver.admission.judges import JudgingContext, Unprocessable
from dray.apiserver.admission.matching import Matcher
from dray.apiserver.admission.policy_params import Params, ParamsError, ParamSource
from dray.apiserver.read.reader import many

S = TypeVar("S", ValidatingAdmissionPolicy, MutatingAdmissionPolicy)
B = TypeVar("B", ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding)
J = TypeVar("J")
P = TypeVar("P", bound=CompiledPolicy)


class PolicyUse(NamedTuple):
    """One evaluation of a policy: its binding, parameters and their index; or in `fault` why it cannot be evaluated."""

    binding: str
    number: int = 0
    params: Params = None
    fault: str = ""


class BoundPolicy(Generic[P, B]):
    """A policy and its bindings."""

    def __init__(self, policy: P, bindings: list[B], context: JudgingContext) -> None:
        self.policy = policy
        self.bindings: dict[str, B] = {binding.metadata.name: binding for binding in bindings}
        self.context = context
        self.matcher = Matcher(policy.constraints)
        self._matchers: dict[str, Matcher] = {
            name: Matcher(binding.spec.matchResources or MatchResources()) for name, binding in self.bindings.items()
        }

    def uses(self, request: AdmissionRequest) -> Iterator[PolicyUse]:
        """Yield one PolicyUse per matching binding and parameter object, or with the fault if parameters are missing."""
        kind, reader = self.policy.params, self.context.reader
        try:
            source = ParamSource(kind, reader, self.context.find_kind) if kind is not None else None
        except ParamsError as error:
            yield PolicyUse("", fault=f"failed to configure policy: {error}")
            return
        for name, binding in self.bindings.items():
            if self._matchers[name].version(request, reader) is None:
                continue
            try:
                found = source.find(binding.spec.paramRef, request.namespace) if source is not None else [None]
            except ParamsError as error:
                yield PolicyUse(name, fault=f"failed to configure binding: {error}")
            else:
                yield from (PolicyUse(name, number, params) for number, params in enumerate(found))


def bound(
    context: JudgingContext, policies: type[S], bindings: type[B], make: Callable[[S, list[B], JudgingContext], J]
) -> Iterator[J]:
    """Yield `make(policy, bindings, context)` for each policy with bindings, sorted by name; bindings are sorted too."""
    by_policy: dict[str, list[B]] = {}
    for binding in sorted(many(context.reader, bindings), key=lambda one: one.metadata.name):
        by_policy.setdefault(binding.spec.policyName, []).append(binding)
    for policy in sorted(many(context.reader, policies), key=lambda one: one.metadata.name):
        if found := by_policy.get(policy.metadata.name):
            yield make(policy, found, context)


def denied(request: AdmissionRequest, text: str, kind: type[ApiError] = Unprocessable) -> ApiError:
    """Return the error of a request that a policy denies. `kind` is the class of the error."""
    form = request.forbidden(text)
    return kind(form.message, **form.details, causes=[{"message": text}])
