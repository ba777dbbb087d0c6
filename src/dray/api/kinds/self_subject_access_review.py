"""SelfSubjectAccessReview: asks whether the caller may do something."""

from __future__ import annotations

from dray.api.kind import AUTHORIZATION, CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(
    AUTHORIZATION,
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    authorization.SelfSubjectAccessReview,
    namespaced=False,
    verbs=CREATE_ONLY,
)
