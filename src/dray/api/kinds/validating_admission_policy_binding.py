"""ValidatingAdmissionPolicyBinding: where a ValidatingAdmissionPolicy applies."""

from __future__ import annotations

from dray.api.kind import ADMISSION, API_EXTENSIONS, Resource
from dray.api.types import admissionregistration

KIND = Resource(
    ADMISSION,
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    admissionregistration.ValidatingAdmissionPolicyBinding,
    namespaced=False,
    categories=API_EXTENSIONS,
)
