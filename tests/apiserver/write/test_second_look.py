"""A refusal counts only if it was decided on everything that the store has."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import Conflict, NotFound, ServiceUnavailable
from dray.api.resources import BY_TYPE
from dray.api.types.core import ConfigMap
from dray.api.users import ADMIN
from dray.apiserver.request import Answer, Request
from dray.apiserver.write.second_look import with_second_look
from dray.store import Cache, MemoryLog, Op, Unavailable


class LateCache:
    """A cache that gets to the revision of its store when somebody reads."""

    def __init__(self, revision: int, store: int | None) -> None:
        self.revision = revision
        self._store = store

    async def read(self) -> int:
        if self._store is None:
            raise Unavailable("away")
        self.revision = self._store
        return self.revision


async def refused_once(cache: LateCache, verb: str = "update") -> list[Any]:
    """The bodies of the attempts; the first attempt changes its body and is refused."""
    bodies: list[Any] = []

    async def attempt(request: Request) -> Answer:
        bodies.append(dict(request.body))
        request.body["defaulted"] = True
        if len(bodies) == 1:
            raise Conflict("another version")
        return Answer()

    request = Request(user=ADMIN, verb=verb, resource=BY_TYPE[ConfigMap], body={"a": 1})
    await with_second_look(cache, request, attempt)  # type: ignore[arg-type]  # all that is asked of a cache
    return bodies


async def test_a_write_that_was_refused_while_the_cache_was_behind_is_tried_again_as_it_was() -> None:
    assert await refused_once(LateCache(1, 2)) == [{"a": 1}, {"a": 1}]


async def test_a_refusal_of_a_cache_that_is_up_to_date_stands() -> None:
    with pytest.raises(Conflict):
        await refused_once(LateCache(1, 1))


async def test_a_refusal_counts_for_nothing_while_the_store_cannot_be_read() -> None:
    """What a server that is cut off does not know may have been created or deleted through another one."""
    with pytest.raises(ServiceUnavailable):
        await refused_once(LateCache(1, None))


async def test_a_refusal_is_not_trusted_if_the_cache_got_on_meanwhile() -> None:
    cache = LateCache(1, 2)
    attempts = 0

    async def attempt(request: Request) -> Answer:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            cache.revision = 2  # after the decision
            raise NotFound("no such object")
        return Answer()

    request = Request(user=ADMIN, verb="delete", resource=BY_TYPE[ConfigMap])
    await with_second_look(cache, request, attempt)  # type: ignore[arg-type]  # all that is asked of a cache
    assert attempts == 2


async def test_reads_and_other_failures_are_not_tried_again() -> None:
    with pytest.raises(Conflict):
        await refused_once(LateCache(1, 2), "get")

    async def fails(request: Request) -> Answer:
        raise ServiceUnavailable("later")

    request = Request(user=ADMIN, verb="create", resource=BY_TYPE[ConfigMap], body={})
    with pytest.raises(ServiceUnavailable):
        await with_second_look(LateCache(1, 2), request, fails)  # type: ignore[arg-type]


async def test_a_second_refusal_stands() -> None:
    async def fails(request: Request) -> Answer:
        raise NotFound("gone")

    request = Request(user=ADMIN, verb="delete", resource=BY_TYPE[ConfigMap])
    with pytest.raises(NotFound):
        await with_second_look(LateCache(1, 2), request, fails)  # type: ignore[arg-type]


async def test_a_cache_of_a_log_that_this_process_alone_writes_is_never_behind() -> None:
    log = MemoryLog()
    cache = await Cache.open(log)
    await cache.commit([Op("a/b", b"1")])
    assert cache.is_local
    await cache.close()
