"""ValidatingAdmissionPolicy: CEL expressions that may refuse requests."""

from __future__ import annotations

from dray.api.kind import ADMISSION, API_EXTENSIONS, STATUS, Resource
from dray.api.types import admissionregistration

KIND = Resource(
    ADMISSION,
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    admissionregistration.ValidatingAdmissionPolicy,
    namespaced=False,
    categories=API_EXTENSIONS,
    subresources=STATUS,
)
