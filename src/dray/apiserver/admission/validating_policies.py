"""ValidatingAdmissionPolicy: rules that cluster administrators write as CEL expressions and bind to resources.

All matching policies are evaluated; the first denial is the error. Audit annotations are evaluated but not recorded,
because there is no audit log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dray.api.custom import CustomObject
from dray.api.errors import ApiError, Forbidden, TooLarge, Unauthorized
from dray.api.needs import KnownValues, Lacking
from dray.api.resources import RESOURCES
from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.apiserver.admission import Admission, AdmissionRequest, MaybeAwaitable
from dray.apiserver.admission.bound_policies import BoundPolicy, bound, denied
from dray.apiserver.admission.judges import EXEMPT, Configured, JudgingContext, Unprocessable
from dray.apiserver.admission.judging import judged
from dray.apiserver.admission.policy_judgement import Policy, PolicyRefusal, judge_policy
from dray.apiserver.admission.policy_view import PolicyView

_DENIALS: Mapping[str, type[ApiError]] = {
    "Forbidden": Forbidden,
    "Invalid": Unprocessable,
    "RequestEntityTooLarge": TooLarge,
    "Unauthorized": Unauthorized,
}

PolicyBinding = ValidatingAdmissionPolicyBinding


class Denial(NamedTuple):
    """A policy's denial of a request, with the names of policy and binding."""

    policy: str
    binding: str  # empty if the policy itself is faulty
    refusal: PolicyRefusal

    def error(self, request: AdmissionRequest) -> ApiError:
        """Return the ApiError that the denied request is answered with."""
        bound = f" with binding '{self.binding}'" if self.binding else ""
        text = f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.refusal.message}"
        return denied(request, text, _DENIALS.get(self.refusal.reason, Unprocessable))


class CheckingPolicy(BoundPolicy[Policy, PolicyBinding]):
    """A validating policy and its bindings."""

    def __init__(
        self, policy: ValidatingAdmissionPolicy, bindings: list[PolicyBinding], context: JudgingContext
    ) -> None:
        super().__init__(Policy(policy), bindings, context)

    def denials(self, request: AdmissionRequest, views: dict[str, PolicyView], known: KnownValues) -> Iterator[Denial]:
        """Yield the denials of a request, and add warnings to the request. Raises Lacking if a verdict takes long.

        Yields nothing if the policy does not match. Refusals deny only if the binding's actions include Deny, and
        warn only if they include Warn; faults always deny.
        """
        policy, version = self.policy, self.matcher.version(request, self.context.reader)
        if version is None:
            return
        view = views.get(version)
        if view is None:
            view = views[version] = self.context.view(request, version)
        for use in self.uses(request):
            if use.fault:
                refusals = policy.failure(use.fault)
            else:
                key, there = (policy.name, use.binding, use.number), partial(judge_policy, policy.source)
                verdict = judged(known, key, partial(view.read_with, use.params), policy.judge, there)
                actions = self.bindings[use.binding].spec.validationActions
                if "Warn" in actions:
                    told = (
                        f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{use.binding}'"
                    )
                    request.warnings.extend(f"{told}: {refusal.message}" for refusal in verdict.refusals)
                refusals = [*(verdict.refusals if "Deny" in actions else ()), *verdict.faults]
            yield from (Denial(policy.name, use.binding, refusal) for refusal in refusals)


class ValidatingPolicies(Admission):
    """Evaluates all bound validating policies."""

    name = "ValidatingAdmissionPolicy"
    configured_by = (ValidatingAdmissionPolicyBinding,)
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")
    types = (CustomObject, *(resource.type for resource in RESOURCES if resource.type not in EXEMPT))

    def __init__(self, context: JudgingContext) -> None:
        kinds = ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
        self._resolver = context.resolver
        self._policies = Configured(context.reader, kinds, partial(bound, context, *kinds, CheckingPolicy))

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Evaluate the policies that may match, and raise the first denial.

        Returns remaining work as an awaitable, or None if everything is decided.
        """
        about = self._policies.about(request)
        return self._ask(about, request) if about else None

    def _ask(self, about: Sequence[CheckingPolicy], request: AdmissionRequest) -> MaybeAwaitable:
        """Evaluate policies and raise the first denial.

        Returns an awaitable if verdicts must come from the worker process, else None.
        """
        warnings, known = len(request.warnings), KnownValues()

        def check() -> None:
            del request.warnings[warnings:]
            views: dict[str, PolicyView] = {}
            if denials := [denial for policy in about for denial in policy.denials(request, views, known)]:
                raise denials[0].error(request)

        try:
            check()
        except Lacking as lacking:
            return self._resolver.go_on(lacking, request.user.name, False, check)
        return None
