"""A controller waits until its copy shows what it wrote."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import Timeout
from dray.api.types.core import ConfigMap
from dray.client import Client, Informer, key_of
from dray.controllers.workloads.writes import OwnWrites
from tests.controllers.workloads.conftest import NAMESPACE


async def make(client: Client, name: str) -> ConfigMap:
    return await client.create(ConfigMap, {"metadata": {"name": name}}, namespace=NAMESPACE)


async def test_an_owner_waits_for_its_own_writes_and_for_no_others(client: Client) -> None:
    copy = Informer(client, ConfigMap)  # it does not run yet: everything is news
    writes = OwnWrites(patience=0.05)
    writes.follow(ConfigMap, copy)
    owner, other = await make(client, "owner"), await make(client, "other")
    writes.wrote(owner, await make(client, "new"))
    await writes.shown(key_of(other))
    with pytest.raises(Timeout, match="behind this controller's writes"):
        await writes.shown(key_of(owner))
    task = asyncio.create_task(copy.run())
    await copy.synced()
    await writes.shown(key_of(owner))
    assert copy.get(NAMESPACE, "new") is not None
    await _stop(task)


async def test_changes_and_deletions_are_waited_for_too(client: Client) -> None:
    copy = Informer(client, ConfigMap)
    writes = OwnWrites()
    writes.follow(ConfigMap, copy)
    owner, changed, deleted = [await make(client, name) for name in ("owner", "changed", "deleted")]
    task = asyncio.create_task(copy.run())
    await copy.synced()
    patched = await client.patch(ConfigMap, "changed", {"data": {"a": "b"}}, NAMESPACE)
    writes.wrote(owner, patched)
    await client.delete(ConfigMap, "deleted", NAMESPACE)
    writes.deleted(owner, deleted)
    await writes.shown(key_of(owner))
    seen = copy.get(NAMESPACE, "changed")
    assert seen is not None
    assert seen.data == {"a": "b"}
    assert changed.data == {}
    assert copy.get(NAMESPACE, "deleted") is None
    await _stop(task)


async def test_what_was_created_and_deleted_meanwhile_counts_as_shown(client: Client) -> None:
    copy = Informer(client, ConfigMap)
    writes = OwnWrites()
    writes.follow(ConfigMap, copy)
    owner = await make(client, "owner")
    brief = await make(client, "brief")
    writes.wrote(owner, brief)
    await client.delete(ConfigMap, "brief", NAMESPACE)
    task = asyncio.create_task(copy.run())
    await writes.shown(key_of(owner))
    assert copy.get(NAMESPACE, "brief") is None
    await _stop(task)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
