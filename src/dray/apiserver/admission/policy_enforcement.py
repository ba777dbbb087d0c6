"""What policies that are bound say about a request, and what comes of it: a refusal, a warning or nothing.

Left out: audit annotations are evaluated, but there is no audit log to write them to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dray.api.errors import ApiError, Forbidden, TooLarge, Unauthorized
from dray.api.types.admissionregistration import (
    MatchResources,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.api.wire import Wire
from dray.apiserver.admission import AdmissionRequest, Operation
from dray.apiserver.admission.attempts import Elsewhere, Known
from dray.apiserver.admission.conditions import VALUES, TooSlow, quickly
from dray.apiserver.admission.matching import matched_version, rule_matches, selected
from dray.apiserver.admission.policy_judgement import Policy, PolicyJudging, Refusal, Verdict
from dray.apiserver.admission.policy_params import Params, ParamsError, ParamSource
from dray.apiserver.admission.policy_view import View
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
Sort = tuple[type[Wire], Operation, str, str]  # what rules distinguish requests by, but for the object's name


Asked = tuple[str, str, int]  # policy, binding, and which of its parameters


class Bound(NamedTuple):
    """A policy and what binds it."""

    policy: Policy
    bindings: tuple[Binding, ...]


class Denial(NamedTuple):
    """A refusal and where it comes from."""

    policy: str
    binding: str  # empty where the policy itself is at fault
    refusal: Refusal


class Enforcement:
    """The policies of a cluster at some time. All that a request concerns are asked; the first refusal is the answer."""

    def __init__(
        self,
        policies: Iterable[ValidatingAdmissionPolicy],
        bindings: Iterable[Binding],
        reader: Reader,
        authorizer: Union,
    ) -> None:
        self._reader = reader
        self._authorizer = authorizer
        by_policy: dict[str, list[Binding]] = {}
        for binding in bindings:
            by_policy.setdefault(binding.spec.policyName, []).append(binding)
        self._bound = [
            Bound(Policy(policy), tuple(by_policy[policy.metadata.name]))
            for policy in policies
            if policy.metadata.name in by_policy
        ]
        self._concerned: dict[Sort, tuple[Bound, ...]] = {}

    def check(self, request: AdmissionRequest, known: Known) -> None:
        """Warn about the request, or refuse it by raising an ApiError; raises Elsewhere for a verdict that takes long."""
        views: dict[str, View] = {}
        denials = [denial for bound in self._about(request) for denial in self._denials(bound, request, views, known)]
        if denials:
            raise _denied(request, denials[0])

    def _about(self, request: AdmissionRequest) -> tuple[Bound, ...]:
        """The policies that may be about a request; most are about few of all sorts, which are remembered."""
        sort = request.resource.type, request.operation, request.subresource, request.version
        found = self._concerned.get(sort)
        if found is None:
            found = self._concerned[sort] = tuple(bound for bound in self._bound if _may_concern(bound, request))
        return found

    def _denials(
        self, bound: Bound, request: AdmissionRequest, views: dict[str, View], known: Known
    ) -> Iterator[Denial]:
        policy = bound.policy
        version = _matched(policy.spec.matchConstraints, request, self._reader)
        if version is None:
            return
        view = views.get(version)
        if view is None:
            view = views[version] = View(request, version, self._reader, self._authorizer)
        kind = policy.spec.paramKind
        try:
            source = ParamSource(kind, self._reader) if kind is not None else None
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
        view: View,
        known: Known,
    ) -> Iterator[Denial]:
        name, match = binding.metadata.name, binding.spec.matchResources
        if match is not None and _matched(match, request, self._reader) is None:
            return
        try:
            params = source.find(binding.spec.paramRef, request.namespace) if source is not None else [None]
        except ParamsError as error:
            failure = policy.failure(f"failed to configure binding: {error}")
            yield from (Denial(policy.name, name, refusal) for refusal in failure)
            return
        for number, one in enumerate(params):
            asked = policy.name, name, number
            verdict = known.get(asked) or _judged(policy, view, one, asked)
            if "Warn" in binding.spec.validationActions:
                told = f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{name}'"
                request.warnings.extend(f"{told}: {refusal.message}" for refusal in verdict.refusals)
            denying = verdict.refusals if "Deny" in binding.spec.validationActions else []
            yield from (Denial(policy.name, name, refusal) for refusal in (*denying, *verdict.faults))


def _judged(policy: Policy, view: View, params: Params, asked: Asked) -> Verdict:
    def read(name: str) -> Value:
        return params if name == "params" else view.read(name)

    if policy.asks_authorizer:
        return policy.judge(read)
    try:
        return policy.judge(read, quickly())
    except TooSlow:
        raise Elsewhere(asked, PolicyJudging(policy.source, {name: read(name) for name in VALUES})) from None


def _may_concern(bound: Bound, request: AdmissionRequest) -> bool:
    match = bound.policy.spec.matchConstraints
    rules = match.resourceRules if match is not None else ()
    return any(rule_matches(rule, request, version) for version in request.resource.versions for rule in rules)


def _matched(match: MatchResources | None, request: AdmissionRequest, reader: Reader) -> str | None:
    """The version in which a policy or binding sees a request, if it is about it."""
    if match is None or not selected(match, request, reader):
        return None
    if matched_version(match.excludeResourceRules, match.matchPolicy, request) is not None:
        return None
    if not match.resourceRules:
        return request.version or request.resource.stored
    return matched_version(match.resourceRules, match.matchPolicy, request)


def _denied(request: AdmissionRequest, denial: Denial) -> ApiError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    text = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.refusal.message}"
    form = request.forbidden(text)
    return _DENIALS.get(denial.refusal.reason, Unprocessable)(form.message, **form.details, causes=[{"message": text}])
