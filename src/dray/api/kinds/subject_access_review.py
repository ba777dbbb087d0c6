"""SubjectAccessReview: asks whether somebody may do something."""

from __future__ import annotations

from dray.api.kind import AUTHORIZATION, CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(
    AUTHORIZATION,
    "subjectaccessreviews",
    "SubjectAccessReview",
    authorization.SubjectAccessReview,
    namespaced=False,
    verbs=CREATE_ONLY,
)
