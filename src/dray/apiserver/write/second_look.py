"""Retry a write that was refused because the cache was outdated.

If several API servers share one etcd, each cache lags the writes of the others by milliseconds. Commits compare
revisions, so no write goes wrong. But a refusal (object not found, other resourceVersion, missing namespace, exceeded
quota) is based on the cache alone. So the refusal counts only if the cache had every change in the store; otherwise
the cache catches up and the write is retried once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dray.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dray.apiserver.outages import unavailable
from dray.apiserver.request import Answer, Request, copied
from dray.store import Cache, StoreError

_REFUSALS = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
_READS = frozenset({"get", "list"})


async def with_second_look(cache: Cache, request: Request, attempt: Callable[[Request], Awaitable[Answer]]) -> Answer:
    """Execute a request. Returns its Answer. A write refused while the cache lagged the store is executed once more."""
    if request.verb in _READS:
        return await attempt(request)
    # attempts change the body
    body = copied(request.body)[0] if isinstance(request.body, dict | list) else request.body
    again = msgspec.structs.replace(request, body=body)
    before = cache.revision
    try:
        return await attempt(request)
    except _REFUSALS as refusal:
        if not await _was_behind(cache, before, refusal):
            raise
    try:
        return await attempt(again)
    finally:
        request.complaints = again.complaints


async def _was_behind(cache: Cache, before: int, refusal: ApiError) -> bool:
    """Return whether the cache lacked changes of the store at the start of an attempt.

    Raises ServiceUnavailable if the store cannot be read, because the refusal may then be wrong.
    """
    try:
        return await cache.read() > before
    except StoreError as error:
        raise unavailable(error) from refusal
