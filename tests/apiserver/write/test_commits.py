"""Commits with company: all or nothing, and again when only the company was in the way."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import AlreadyExists, Conflict, Forbidden
from dray.api.resources import BY_NAME
from dray.apiserver.admission import Admission, AdmissionRequest, Chain, Write
from dray.apiserver.core import ApiServer
from dray.apiserver.read.storage import Storage
from dray.store import Cache
from tests.apiserver.asking import CLAIMS, Asker, claim

CONFIG = BY_NAME["", "configmaps"]


class Counting(Admission):
    """Counts claims in a ConfigMap, up to a limit. `disturb` changes it behind the back of the first attempts."""

    name = "Counting"

    def __init__(self, storage: Storage, limit: int = 3, disturb: int = 0) -> None:
        self._storage = storage
        self._limit = limit
        self._disturb = disturb

    async def validate(self, request: AdmissionRequest) -> None:
        if request.resource is CLAIMS:
            await self.write(request)

    async def write(self, request: AdmissionRequest) -> None:
        found: Any = self._storage.get(CONFIG, "ns", "count")
        number = int(found.data["n"]) + 1
        if number > self._limit:
            raise request.forbidden("too many")
        tree = {"metadata": {"name": "count", "namespace": "ns"}, "data": {"n": str(number)}}
        expected = found.metadata.resourceVersion
        if self._disturb:
            self._disturb -= 1
            expected = "999999"  # as if somebody else had written since
        request.writes.append(Write(CONFIG, "ns", "count", tree, expected))


async def counting(cache: Cache, **options: int) -> Asker:
    storage = Storage(cache)
    ask = Asker(ApiServer(storage, admission=Chain([Counting(storage, **options)])))
    await ask.create(CONFIG, {"metadata": {"name": "count"}, "data": {"n": "0"}})
    return ask


async def count(ask: Asker) -> str:
    found: Any = await ask.get(CONFIG, "count")
    return str(found.data["n"])


async def test_company_is_written_at_the_same_revision(cache: Cache) -> None:
    ask = await counting(cache)
    created = await ask.create(CLAIMS, claim("a"))
    assert (await ask.get(CONFIG, "count")).metadata.resourceVersion == created.metadata.resourceVersion
    assert await count(ask) == "1"


async def test_a_refusal_leaves_no_trace(cache: Cache) -> None:
    ask = await counting(cache, limit=1)
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(Forbidden, match="too many"):
        await ask.create(CLAIMS, claim("b"))
    with pytest.raises(Forbidden):
        await ask.create(CLAIMS, claim("a"))
    assert (await count(ask), await ask.names(CLAIMS)) == ("1", ["a"])


async def test_an_object_that_exists_is_not_counted_twice(cache: Cache) -> None:
    ask = await counting(cache)
    await ask.create(CLAIMS, claim("a"))
    with pytest.raises(AlreadyExists):
        await ask.create(CLAIMS, claim("a"))
    assert await count(ask) == "1"


async def test_company_that_was_changed_is_decided_anew(cache: Cache) -> None:
    ask = await counting(cache, disturb=3)
    await ask.create(CLAIMS, claim("a"))
    assert (await count(ask), await ask.names(CLAIMS)) == ("1", ["a"])


async def test_company_that_is_always_changed_is_given_up(cache: Cache) -> None:
    ask = await counting(cache, disturb=1000)
    with pytest.raises(Conflict, match=r'configmaps "count": too many others write'):
        await ask.create(CLAIMS, claim("a"))
    assert await ask.names(CLAIMS) == []


async def test_a_dry_run_counts_nothing(cache: Cache) -> None:
    ask = await counting(cache)
    await ask.create(CLAIMS, claim("a"), dry_run=True)
    assert await count(ask) == "0"
