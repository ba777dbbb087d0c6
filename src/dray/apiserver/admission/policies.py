"""ValidatingAdmissionPolicy objects are kept, not obeyed; whoever writes one is told so."""

from __future__ import annotations

from dray.api.types.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.apiserver.admission import Admission, AdmissionRequest


class PolicyWarning(Admission):
    """Warns about policies."""

    name = "ValidatingAdmissionPolicy"
    types = (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.operation == "DELETE":
            return
        if request.concerns(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding):
            request.warnings.append(f"{request.resource.kind} is stored but not enforced yet by this server")
