"""MutatingAdmissionPolicy: CEL expressions that may change objects."""

from __future__ import annotations

from dray.api.kind import ADMISSION, API_EXTENSIONS, Resource
from dray.api.types import admissionregistration

KIND = Resource(
    ADMISSION,
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    admissionregistration.MutatingAdmissionPolicy,
    namespaced=False,
    categories=API_EXTENSIONS,
)
