"""SelfSubjectAccessReview: checks whether the caller has a permission."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(authorization.SelfSubjectAccessReview, namespaced=False, verbs=CREATE_ONLY)
