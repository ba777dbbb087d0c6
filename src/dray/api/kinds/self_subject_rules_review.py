"""SelfSubjectRulesReview: lists the caller's permissions in a namespace."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authorization

KIND = Resource(authorization.SelfSubjectRulesReview, namespaced=False, verbs=CREATE_ONLY)
