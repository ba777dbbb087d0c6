"""TokenReview: asks whose token something is."""

from __future__ import annotations

from dray.api.kind import AUTHENTICATION, CREATE_ONLY, Resource
from dray.api.types import authentication

KIND = Resource(
    AUTHENTICATION,
    "tokenreviews",
    "TokenReview",
    authentication.TokenReview,
    namespaced=False,
    verbs=CREATE_ONLY,
)
