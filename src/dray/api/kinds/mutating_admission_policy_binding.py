"""MutatingAdmissionPolicyBinding: where a MutatingAdmissionPolicy applies."""

from __future__ import annotations

from dray.api.kind import ADMISSION, API_EXTENSIONS, Resource
from dray.api.types import admissionregistration

KIND = Resource(
    ADMISSION,
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    admissionregistration.MutatingAdmissionPolicyBinding,
    namespaced=False,
    categories=API_EXTENSIONS,
)
