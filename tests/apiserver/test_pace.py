"""A driver that writes without a pause is slowed down, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.pace import Pace
from dray.api.types.resource import ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver import core
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess


def tree(name: str, node: str, driver: str = "d.example.com") -> dict[str, object]:
    spec = {"driver": driver, "nodeName": node, "pool": {"name": name, "resourceSliceCount": 1}, "devices": []}
    return {"metadata": {"name": name}, "spec": spec}


async def test_the_slices_of_one_driver_on_one_node_share_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Pace", lambda rate, burst: Pace(0.01, 1))
    running = await Running.open(ServerSettings())
    client = InProcess(running.api, ADMIN)
    everywhere = tree("everywhere", "")
    del everywhere["spec"]["nodeName"]  # type: ignore[attr-defined]  # it is a dict
    everywhere["spec"]["allNodes"] = True  # type: ignore[index]
    for slice_ in (tree("a", "n1"), tree("b", "n1"), tree("c", "n2"), tree("d", "n1", "e.example.com"), everywhere):
        await client.create(ResourceSlice, slice_)

    async def update(name: str, generation: int = 1) -> ResourceSlice:
        return await client.patch(ResourceSlice, name, {"spec": {"pool": {"generation": generation}}})

    await update("a")
    flood = asyncio.create_task(update("b"))
    for number in range(10):  # not slowed down at all: it has no node
        await update("everywhere", number)
    await asyncio.gather(update("c"), update("d"))
    assert not flood.done()
    flood.cancel()
    assert (await client.get(ResourceSlice, "b")).spec.pool.generation == 0
    await running.close()
