"""Devices are held, and counted once, also after the cache that tells of slices has started over."""

from __future__ import annotations

import pytest

from dray.api.errors import Conflict
from dray.api.types.resource import ResourceSlice
from dray.client import InProcess
from dray.store import Compacted
from tests.apiserver.write.test_holds import allocate, client, create_claim, publish

__all__ = ["client"]  # a fixture


async def test_devices_are_held_by_what_is_published_after_the_cache_started_over(client: InProcess) -> None:
    cache = client._server.storage.cache  # type: ignore[attr-defined]  # of the server in this process
    await cache._start_over(Compacted(0, cache.revision))
    await publish(client)
    for name in ("a", "b"):
        await create_claim(client, name)
    await allocate(client, "a", "one")
    with pytest.raises(Conflict):
        await allocate(client, "b", "one")


async def test_a_slice_is_counted_once_however_often_the_cache_starts_over(client: InProcess) -> None:
    await publish(client)
    cache = client._server.storage.cache  # type: ignore[attr-defined]  # of the server in this process
    await cache._start_over(Compacted(0, cache.revision))
    await client.delete(ResourceSlice, "s")
    for name in ("a", "b"):
        await create_claim(client, name)
        await allocate(client, name, "one")  # a device that nobody publishes any more is only a name
