"""ValidatingAdmissionPolicy: rules that the cluster's administrators write as expressions, bound to what they hold for.

A policy holds where a binding says so, from the next request on. Requests about policies and bindings themselves are not
judged, so that a policy can always be taken back. Whatever is about expressions is imported when there is a binding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.custom import CustomObject
from dray.api.needs import Known, Lacking
from dray.api.resources import BY_TYPE, RESOURCES
from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.apiserver.admission import Admission, AdmissionRequest, Waiting
from dray.apiserver.admission.mutating_policies import EXEMPT
from dray.apiserver.read.reader import Reader, many
from dray.apiserver.security.authorization import Union
from dray.apiserver.steps import RequestResolver, resolver_of_its_own

if TYPE_CHECKING:
    from dray.apiserver.admission.policy_enforcement import Enforcement
    from dray.apiserver.admission.policy_params import FindKind

_POLICIES, _BINDINGS = BY_TYPE[ValidatingAdmissionPolicy], BY_TYPE[ValidatingAdmissionPolicyBinding]


class ValidatingPolicies(Admission):
    """Asks the policies that are bound."""

    name = "ValidatingAdmissionPolicy"
    configured_by = (ValidatingAdmissionPolicyBinding,)
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")
    types = (CustomObject, *(resource.type for resource in RESOURCES if resource.type not in EXEMPT))

    def __init__(
        self,
        reader: Reader,
        authorizer: Union,
        resolver: RequestResolver | None = None,
        find_kind: FindKind | None = None,
    ) -> None:
        self._reader = reader
        self._bindings, self._policies = reader.last_change(_BINDINGS), reader.last_change(_POLICIES)
        self._authorizer = authorizer
        self._seen = (-1, -1)
        self._enforcement: Enforcement | None = None
        self._resolver = resolver or resolver_of_its_own()
        self._find_kind = find_kind

    def validate(self, request: AdmissionRequest) -> Waiting:
        bindings = self._bindings.revision
        if self._enforcement is None and bindings == self._seen[0]:  # most clusters: nothing is bound
            return None
        seen = bindings, self._policies.revision
        if seen != self._seen:
            self._seen = seen
            self._enforcement = self._enforced()
        return self._ask(self._enforcement, request) if self._enforcement is not None else None

    def _ask(self, enforcement: Enforcement, request: AdmissionRequest) -> Waiting:
        warnings, known = len(request.warnings), Known()

        def check() -> None:
            del request.warnings[warnings:]
            enforcement.check(request, known)

        try:
            check()
        except Lacking as lacking:
            return self._resolver.go_on(lacking, request.user.name, False, check)
        return None

    def _enforced(self) -> Enforcement | None:
        bindings = list(many(self._reader, ValidatingAdmissionPolicyBinding))
        if not bindings:
            return None
        from dray.apiserver.admission.policy_enforcement import Enforcement

        policies = many(self._reader, ValidatingAdmissionPolicy)
        return Enforcement(policies, bindings, self._reader, self._authorizer, self._find_kind)
