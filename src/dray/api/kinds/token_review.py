"""TokenReview: returns the user that a token belongs to."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import authentication

KIND = Resource(authentication.TokenReview, namespaced=False, verbs=CREATE_ONLY)
