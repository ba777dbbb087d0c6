"""SubjectAccessReview: checks whether a user has a permission."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(authorization.SubjectAccessReview, namespaced=False, verbs=CREATE_ONLY)
