"""What policies that are bound say about a request, and what comes of it: a refusal, a warning or nothing.

Left out: audit annotations are evaluated, but there is no audit log to write them to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from dray.api.errors import ApiError, Forbidden, TooLarge, Unauthorized
from dray.api.needs import Known
from dray.api.types.admissionregistration import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.judging import judged
from dray.apiserver.admission.policy_bindings import Bound, BoundPolicies, matched
from dray.apiserver.admission.policy_judgement import Policy, PolicyRefusal, judge_policy
from dray.apiserver.admission.policy_params import FindKind, Params, ParamsError, ParamSource
from dray.apiserver.admission.policy_view import PolicyView
from dray.apiserver.admission.webhooks import Unprocessable
from dray.apiserver.read.reader import Reader
from dray.apiserver.security.authorization import Union
from dray.cel.values import Value

_DENIALS: Mapping[str, type[ApiError]] = {
    "Forbidden": Forbidden,
    "Invalid": Unprocessable,
    "RequestEntityTooLarge": TooLarge,
    "Unauthorized": Unauthorized,
}

Binding = ValidatingAdmissionPolicyBinding


class Denial(NamedTuple):
    """A refusal and where it comes from."""

    policy: str
    binding: str  # empty where the policy itself is at fault
    refusal: PolicyRefusal


class Enforcement:
    """The policies of a cluster at some time. All that a request concerns are asked; the first refusal is the answer."""

    def __init__(
        self,
        policies: Iterable[ValidatingAdmissionPolicy],
        bindings: Iterable[Binding],
        reader: Reader,
        authorizer: Union,
        find_kind: FindKind | None = None,
    ) -> None:
        self._find_kind = find_kind
        self._reader = reader
        self._authorizer = authorizer
        self._bound = BoundPolicies(policies, bindings, Policy)

    def check(self, request: AdmissionRequest, known: Known) -> None:
        """Warn about the request, or refuse it by raising an ApiError; raises Lacking for a verdict that takes long."""
        views: dict[str, PolicyView] = {}
        denials = [
            denial for bound in self._bound.about(request) for denial in self._denials(bound, request, views, known)
        ]
        if denials:
            raise _denied(request, denials[0])

    def _denials(
        self, bound: Bound[Policy, Binding], request: AdmissionRequest, views: dict[str, PolicyView], known: Known
    ) -> Iterator[Denial]:
        policy = bound.policy
        version = matched(policy.spec.matchConstraints, request, self._reader)
        if version is None:
            return
        view = views.get(version)
        if view is None:
            view = views[version] = PolicyView(request, version, self._reader, self._authorizer)
        kind = policy.spec.paramKind
        try:
            source = ParamSource(kind, self._reader, self._find_kind) if kind is not None else None
        except ParamsError as error:
            failure = policy.failure(f"failed to configure policy: {error}")
            yield from (Denial(policy.name, "", refusal) for refusal in failure)
            return
        for binding in bound.bindings:
            yield from self._bound_denials(policy, binding, source, request, view, known)

    def _bound_denials(
        self,
        policy: Policy,
        binding: Binding,
        source: ParamSource | None,
        request: AdmissionRequest,
        view: PolicyView,
        known: Known,
    ) -> Iterator[Denial]:
        name, match = binding.metadata.name, binding.spec.matchResources
        if match is not None and matched(match, request, self._reader) is None:
            return
        try:
            params = source.find(binding.spec.paramRef, request.namespace) if source is not None else [None]
        except ParamsError as error:
            failure = policy.failure(f"failed to configure binding: {error}")
            yield from (Denial(policy.name, name, refusal) for refusal in failure)
            return
        for number, one in enumerate(params):
            key, there = (policy.name, name, number), partial(judge_policy, policy.source)
            verdict = judged(known, key, partial(_read, view, one), policy.judge, there)
            if "Warn" in binding.spec.validationActions:
                told = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{name}'"
                request.warnings.extend(f"{told}: {refusal.message}" for refusal in verdict.refusals)
            denying = verdict.refusals if "Deny" in binding.spec.validationActions else []
            yield from (Denial(policy.name, name, refusal) for refusal in (*denying, *verdict.faults))


def _read(view: PolicyView, params: Params, name: str) -> Value:
    return params if name == "params" else view.read(name)


def _denied(request: AdmissionRequest, denial: Denial) -> ApiError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    text = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.refusal.message}"
    form = request.forbidden(text)
    return _DENIALS.get(denial.refusal.reason, Unprocessable)(form.message, **form.details, causes=[{"message": text}])
