"""LocalSubjectAccessReview: checks whether a user has a permission in one namespace."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(authorization.LocalSubjectAccessReview, verbs=CREATE_ONLY)
