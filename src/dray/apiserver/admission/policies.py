"""ValidatingAdmissionPolicy: rules that the cluster's administrators write as expressions, bound to what they hold for.

A policy holds where a binding says so, from the next request on. Requests about policies and bindings themselves are not
judged, so that a policy can always be taken back. Whatever is about expressions is imported when there is a binding.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dray.api.custom import CustomObject
from dray.api.errors import InternalError
from dray.api.resources import BY_TYPE, RESOURCES
from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.apiserver.admission import Admission, AdmissionRequest, Waiting
from dray.apiserver.read.reader import Reader, many
from dray.apiserver.security.authorization import Union
from dray.background import Background

if TYPE_CHECKING:
    from dray.apiserver.admission.policy_enforcement import Asked, Elsewhere, Enforcement
    from dray.apiserver.admission.policy_judgement import PolicyJudging, Verdict

_EXEMPT = (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)
_POLICIES, _BINDINGS = BY_TYPE[ValidatingAdmissionPolicy], BY_TYPE[ValidatingAdmissionPolicyBinding]


class ValidatingPolicies(Admission):
    """Asks the policies that are bound."""

    name = "ValidatingAdmissionPolicy"
    configured_by = (ValidatingAdmissionPolicyBinding,)
    types = (CustomObject, *(resource.type for resource in RESOURCES if resource.type not in _EXEMPT))

    def __init__(self, reader: Reader, authorizer: Union) -> None:
        self._reader = reader
        self._authorizer = authorizer
        self._seen = (-1, -1)
        self._enforcement: Enforcement | None = None
        self._background = Background()

    def validate(self, request: AdmissionRequest) -> Waiting:
        bindings = self._reader.revision(_BINDINGS)
        if self._enforcement is None and bindings == self._seen[0]:  # most clusters: nothing is bound
            return None
        seen = bindings, self._reader.revision(_POLICIES)
        if seen != self._seen:
            self._seen = seen
            self._enforcement = self._enforced()
        return self._ask(self._enforcement, request) if self._enforcement is not None else None

    def _ask(self, enforcement: Enforcement, request: AdmissionRequest) -> Waiting:
        from dray.apiserver.admission.policy_enforcement import Elsewhere

        warnings = len(request.warnings)
        try:
            enforcement.check(request, {})
        except Elsewhere as elsewhere:
            del request.warnings[warnings:]
            return self._wait(enforcement, request, elsewhere)
        return None

    async def _wait(self, enforcement: Enforcement, request: AdmissionRequest, elsewhere: Elsewhere) -> None:
        """Ask again, with what another process says where that takes long."""
        from dray.apiserver.admission.policy_enforcement import Elsewhere

        known: dict[Asked, Verdict] = {}
        warnings = len(request.warnings)
        while True:
            known[elsewhere.asked] = await self._judged(elsewhere.judging)
            try:
                return enforcement.check(request, known)
            except Elsewhere as further:
                del request.warnings[warnings:]
                elsewhere = further

    async def _judged(self, judging: PolicyJudging) -> Verdict:
        job = self._background.start(judging)
        try:
            await asyncio.shield(job.done)
        finally:
            if not job.done.done():
                job.cancel()
        if judging.verdict is None:
            raise InternalError("an admission policy could not be evaluated: the process that does so has ended")
        return judging.verdict

    async def aclose(self) -> None:
        await self._background.close()

    def _enforced(self) -> Enforcement | None:
        bindings = list(many(self._reader, ValidatingAdmissionPolicyBinding))
        if not bindings:
            return None
        from dray.apiserver.admission.policy_enforcement import Enforcement

        policies = many(self._reader, ValidatingAdmissionPolicy)
        return Enforcement(policies, bindings, self._reader, self._authorizer)
