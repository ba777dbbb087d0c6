"""SelfSubjectReview: returns the user information of the caller."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authentication

KIND = Resource(authentication.SelfSubjectReview, namespaced=False, verbs=CREATE_ONLY)
