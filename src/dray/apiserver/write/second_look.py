"""Asks again where a write was refused on account of a state that is out of date.

With several API servers on one etcd, the cache of each is behind the writes of the others by milliseconds. Commits compare
what they were decided on, so no write is carried out wrongly; but a refusal (no such object, another resourceVersion, no
namespace, quota used up) is decided on the cache alone. It therefore counts only if the cache had everything that the store
had; otherwise the cache catches up and the write is tried once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dray.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dray.apiserver.request import Answer, Request, copied
from dray.store import Cache, StoreError

_REFUSALS = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
_READS = frozenset({"get", "list"})


async def with_second_look(cache: Cache, request: Request, attempt: Callable[[Request], Awaitable[Answer]]) -> Answer:
    """Attempt a request, and once more if it was refused while the cache was behind the store."""
    if request.verb in _READS:
        return await attempt(request)
    body = copied(request.body)[0] if isinstance(request.body, dict | list) else request.body  # attempts change it
    again = msgspec.structs.replace(request, body=body)
    try:
        return await attempt(request)
    except _REFUSALS as refusal:
        if not await _was_behind(cache, refusal):
            raise
    try:
        return await attempt(again)
    finally:
        request.complaints = again.complaints


async def _was_behind(cache: Cache, refusal: ApiError) -> bool:
    before = cache.revision
    try:
        return await cache.read() > before
    except StoreError:
        raise refusal from None
