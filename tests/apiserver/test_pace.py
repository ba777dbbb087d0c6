"""Who writes without a pause is slowed down, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.types.resource import ResourceSlice
from dray.apiserver import core, pace
from dray.apiserver.assembly import Running, Settings
from dray.apiserver.pace import Pace
from dray.apiserver.user import ADMIN
from dray.client import InProcess


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_burst_is_let_through_and_the_rest_waits_its_turn(clock: Clock) -> None:
    paced = Pace(rate=10, burst=3, clock=clock)
    assert [round(paced.delay("a"), 3) for _ in range(6)] == [0, 0, 0, 0.1, 0.2, 0.3]
    assert paced.delay("b") == 0


def test_who_rests_may_hurry_again_but_saves_no_more_than_a_burst(clock: Clock) -> None:
    paced = Pace(rate=10, burst=3, clock=clock)
    for _ in range(3):
        paced.delay("a")
    clock.now += 0.1
    assert [round(paced.delay("a"), 3) for _ in range(2)] == [0, 0.1]
    clock.now += 3600
    assert [round(paced.delay("a"), 3) for _ in range(4)] == [0, 0, 0, 0.1]


def test_those_who_have_rested_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_REMEMBERED", 2)
    paced = Pace(rate=10, burst=1, clock=clock)
    paced.delay("rests")
    clock.now += 1
    for _ in range(3):
        paced.delay("hurries")
    paced.delay("new")
    assert [*paced._next] == ["hurries", "new"]
    assert round(paced.delay("hurries"), 3) == 0.3


def tree(name: str, node: str, driver: str = "d.example.com") -> dict[str, object]:
    spec = {"driver": driver, "nodeName": node, "pool": {"name": name, "resourceSliceCount": 1}, "devices": []}
    return {"metadata": {"name": name}, "spec": spec}


async def test_the_slices_of_one_driver_on_one_node_share_a_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Pace", lambda rate, burst: Pace(0.01, 1))
    running = await Running.open(Settings())
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
