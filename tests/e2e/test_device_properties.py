"""Whatever pods, slices and schedulers do: no counter below zero, no capacity above its value, and all is given back.

A schedule follows from one number: pods for partitions and shares come and go, two schedulers are stopped and started at
any time, and slices disappear and come back. Every state of the claims that a watch shows is judged, not only the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.allocator import Features
from dray.allocator.verification import overcommitted
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.core.configuration import Configuration, SchedulerProfile
from tests.e2e.cluster import SCHEDULER, SECOND_SCHEDULER, Cluster, cluster
from tests.e2e.objects import alternatives, device_class, pod, request, slice_of, template

DRIVER = "x.example.com"
SCHEDULERS = {SCHEDULER: "default-scheduler", SECOND_SCHEDULER: "second"}
STEPS = 30


def partition(name: str, set_: str, memory: int, **more: Any) -> dict[str, Any]:
    drawn = [{"counterSet": set_, "counters": {"memory": {"value": str(memory)}}}]
    return {"name": name, "attributes": {"size": {"int": memory}}, "consumesCounters": drawn, **more}


def slices(node: str) -> list[dict[str, Any]]:
    """Two devices of eight units each, cut in several ways; one way may be shared."""
    share = {"allowMultipleAllocations": True, "capacity": {"units": {"value": "4"}}}
    parts = [partition(f"g{gpu}-{size}-{at}", f"g{gpu}", size) for gpu in (0, 1) for size in (1, 4) for at in range(3)]
    parts += [partition(f"g{gpu}-shared", f"g{gpu}", 2, **share) for gpu in (0, 1)]
    counters = slice_of(f"{node}-a", node, driver=DRIVER, count=3)
    counters["spec"]["sharedCounters"] = [{"name": f"g{gpu}", "counters": {"memory": {"value": "8"}}} for gpu in (0, 1)]
    del counters["spec"]["devices"]
    return [
        counters,
        slice_of(f"{node}-b", node, *parts[:7], driver=DRIVER, count=3),
        slice_of(f"{node}-c", node, *parts[7:], driver=DRIVER, count=3),
    ]


def of_size(size: int, name: str = "r", **more: Any) -> dict[str, Any]:
    return request(name, "x", selector=f'device.attributes["{DRIVER}"].size == {size}', **more)


SHARE = of_size(2, capacity={"requests": {"units": "1500m"}})
TEMPLATES = {
    "small": (of_size(1),),
    "pair": (of_size(1, count=2),),
    "half": (of_size(4),),
    "share": (SHARE,),
    "either": (alternatives({**of_size(4), "name": "half"}, {**of_size(1), "name": "small"}),),
    "both": (of_size(4, "half"), {**SHARE, "name": "share"}),
}


class Schedule:
    """One run. `live` are the pods that exist, `published` the slices."""

    def __init__(self, c: Cluster, random: Random) -> None:
        self.c = c
        self.random = random
        self.live: list[str] = []
        self.made = 0
        self.published: dict[str, dict[str, Any]] = {}

    async def begin(self) -> None:
        trees = [tree for node in ("node-0", "node-1") for tree in slices(node)]
        self.random.shuffle(trees)
        for tree in trees:
            await self.publish(tree)
        await self.c.create(DeviceClass, device_class("x", f'device.driver == "{DRIVER}"'))
        for name, requests in TEMPLATES.items():
            await self.c.create(ResourceClaimTemplate, template(name, *requests))

    async def publish(self, tree: dict[str, Any]) -> None:
        self.published[tree["metadata"]["name"]] = tree
        await self.c.create(ResourceSlice, tree)

    async def step(self) -> None:
        happens = [self.create] * 6 + [self.delete] * 3 + [self.toggle, self.replace]
        await self.random.choice(happens)()

    async def create(self) -> None:
        self.made += 1
        name = f"p{self.made}"
        by = self.random.choice([*SCHEDULERS.values()])
        await self.c.create(Pod, pod(name, templates=[self.random.choice([*TEMPLATES])], schedulerName=by))
        self.live.append(name)

    async def delete(self) -> None:
        if self.live:
            name = self.live.pop(self.random.randrange(len(self.live)))
            await self.c.delete(Pod, name, grace=0)

    async def toggle(self) -> None:
        """Stop a scheduler in whatever it is doing, or start it again."""
        name = self.random.choice([*SCHEDULERS])
        await (self.c.stop(name) if name in self.c.parts else self.c.start(name))

    async def replace(self) -> None:
        """A slice is gone for a while, with devices that may be in use."""
        name = self.random.choice(sorted(self.published))
        await self.c.delete(ResourceSlice, name)
        await asyncio.sleep(0)
        await self.publish(self.published[name])

    async def end(self) -> None:
        """Both schedulers run, and everything that can be had is given out; then all pods go."""
        for name in SCHEDULERS:
            if name not in self.c.parts:
                await self.c.start(name)
        await self.c.eventually(self.settled)
        for name in self.live:
            await self.c.delete(Pod, name, grace=0)
        await self.c.eventually(self.all_given_back)

    async def settled(self) -> bool:
        pods = (await self.c.client.list(Pod, "default")).items
        return all(one.spec.nodeName or any(c.type == "PodScheduled" for c in one.status.conditions) for one in pods)

    async def all_given_back(self) -> bool:
        held = self.c.running.api.storage.cache.list("deviceholds/").versions
        indexes = [self.c.parts[name].work.core.state.devices.index for name in SCHEDULERS]
        return not held and not any(index.taken or index.shares for index in indexes) and not await self.c.claims()


class Judged:
    """What was found of the states that came by."""

    def __init__(self) -> None:
        self.states = 0
        self.complaints: list[str] = []


@asynccontextmanager
async def judged(c: Cluster) -> AsyncIterator[Judged]:
    """Judges every state of claims that comes by while the block runs."""
    found = Judged()
    claims: dict[str, ResourceClaim] = {}
    known = {one.metadata.name: one for one in (await c.client.list(ResourceSlice)).items}

    async def watch() -> None:
        start = (await c.client.list(ResourceClaim, "default")).resource_version
        async for batch in c.client.watch(ResourceClaim, "default", resource_version=start):
            for event in batch:
                claims[event.object.metadata.uid] = event.object
                if event.type == "DELETED":
                    del claims[event.object.metadata.uid]
                results = [one.status.allocation for one in claims.values() if one.status.allocation is not None]
                found.complaints += overcommitted(results, [*known.values()], (), (), Features())
                found.states += len(results)

    task = asyncio.create_task(watch())
    try:
        yield found
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run(seed: int) -> None:
    async with cluster(nodes=2, devices=1) as c:
        c.configurations[SECOND_SCHEDULER] = Configuration({"second": SchedulerProfile("second")})
        await c.start(SECOND_SCHEDULER)
        schedule = Schedule(c, Random(seed))
        await schedule.begin()
        async with judged(c) as found:
            for _ in range(STEPS):
                await schedule.step()
                await asyncio.sleep(schedule.random.choice([0, 0, 0.005]))
            await schedule.end()
        assert found.complaints == []
        assert found.states > 0


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_nothing_is_ever_given_out_twice_and_all_comes_back(seed: int) -> None:
    asyncio.run(run(seed))
