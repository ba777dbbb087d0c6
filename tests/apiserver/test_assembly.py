"""Whole servers: on one store with another, and again on the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.apiserver.assembly import Running, ServerSettings
from dray.store import StoreError
from tests.apiserver.asking import CLAIMS, NAMESPACES, Asker, claim
from tests.store.etcd_process import Etcd
from tests.waiting import within


async def test_a_server_finds_what_it_left(tmp_path: Path) -> None:
    settings = ServerSettings(store=f"sqlite:{tmp_path / 'state.db'}")
    first = await Running.open(settings)
    created = await Asker(first.api).create(CLAIMS, claim("a"), namespace="default")
    revision = first.api.storage.cache.revision
    await first.close()
    second = await Running.open(settings)
    assert await Asker(second.api).get(CLAIMS, "a", namespace="default") == created
    assert second.api.storage.cache.revision == revision  # what every cluster has was there already
    await second.close()


async def test_two_servers_on_one_etcd_see_each_other(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    etcd.start()
    try:
        settings = ServerSettings(store=f"etcd://{etcd.endpoint}")
        one, two = await asyncio.gather(Running.open(settings), Running.open(settings))
        first, second = Asker(one.api), Asker(two.api)
        assert set(await first.names(NAMESPACES)) == set(await second.names(NAMESPACES))
        watch = two.api.watch(second.request("watch", CLAIMS, namespace="default", timeout_seconds=60))
        heard = asyncio.ensure_future(anext(watch))
        created = await first.create(CLAIMS, claim("a"), namespace="default")
        assert (await within(heard))[0].object == created
        assert await second.get(CLAIMS, "a", namespace="default") == created
        patches = [
            asker.patch(CLAIMS, "a", {"metadata": {"labels": {f"{n}-{m}": "x"}}}, namespace="default")
            for n, asker in enumerate((first, second))
            for m in range(3)
        ]
        await asyncio.gather(*patches)
        assert len((await second.get(CLAIMS, "a", namespace="default")).metadata.labels) == 6
        await watch.aclose()
        await one.close()
        await two.close()
    finally:
        etcd.kill()


async def test_a_store_that_cannot_be_opened_says_so() -> None:
    with pytest.raises(StoreError):
        await Running.open(ServerSettings(store="nowhere"))
