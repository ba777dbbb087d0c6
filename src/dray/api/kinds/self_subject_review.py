"""SelfSubjectReview: asks who the caller is."""

from __future__ import annotations

from dray.api.kind import AUTHENTICATION, CREATE_ONLY, Resource
from dray.api.types import authentication

KIND = Resource(
    AUTHENTICATION,
    "selfsubjectreviews",
    "SelfSubjectReview",
    authentication.SelfSubjectReview,
    namespaced=False,
    verbs=CREATE_ONLY,
)
