"""LocalSubjectAccessReview: asks whether somebody may do something in one namespace."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(authorization.LocalSubjectAccessReview, verbs=CREATE_ONLY)
