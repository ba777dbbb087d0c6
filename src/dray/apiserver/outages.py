"""What a client is told when the store cannot do its part; the only place that knows both.

Left out: errors of the store that say something about the request, which whoever asks the store understands.
"""

from __future__ import annotations

from dray.api.errors import ApiError, ServiceUnavailable
from dray.store import Closed, StoreError


def unavailable(error: StoreError) -> ApiError:
    if isinstance(error, Closed):
        return ServiceUnavailable("the server is shutting down", retryAfterSeconds=1)
    return ServiceUnavailable(f"the store cannot answer now: {error}", retryAfterSeconds=1)
