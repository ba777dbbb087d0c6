"""Translate a failure of the store to an API error.

Errors of the store about a single request, such as a revision conflict, are handled where they occur.
"""

from __future__ import annotations

from dray.api.errors import ApiError, ServiceUnavailable
from dray.store import Closed, StoreError


def unavailable(error: StoreError) -> ApiError:
    """Return a ServiceUnavailable with Retry-After for a store that is closed or failing."""
    if isinstance(error, Closed):
        return ServiceUnavailable("the server is shutting down", retryAfterSeconds=1)
    return ServiceUnavailable(f"the store cannot answer now: {error}", retryAfterSeconds=1)
