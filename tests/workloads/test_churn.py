"""Groups that come and go fast while controllers are killed: nothing is orphaned and no entry ever has two claims."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from dray.api.errors import ApiError
from dray.api.podclaims import GROUP_CLAIM_ANNOTATION
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from tests.waiting import eventually
from tests.workloads.cluster import ALL, Cluster

CLIENTS = 4
GROUPS = 250  # of each client: a thousand in all


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster(nodes=4, devices=32)
    await cluster.open()
    await cluster.start("controllers-2")
    yield cluster
    await cluster.close()


class Watch:
    """Follows every claim and remembers if an entry of a group ever had two at a time."""

    def __init__(self) -> None:
        self._alive: dict[str, tuple[str, str]] = {}
        self.seen = 0
        self.doubles: list[tuple[str, str]] = []

    async def follow(self, cluster: Cluster) -> None:
        async with aclosing(cluster.client.watch(ResourceClaim, resource_version="0")) as watch:
            async for batch in watch:
                for event in batch:
                    if event.type != "BOOKMARK":
                        self._note(event.type, event.object)

    def _note(self, type_: str, claim: ResourceClaim) -> None:
        if type_ == "DELETED":
            self._alive.pop(claim.metadata.uid, None)
        elif claim.metadata.uid not in self._alive:
            owner = claim.metadata.ownerReferences[0].uid, claim.metadata.annotations[GROUP_CLAIM_ANNOTATION]
            self._alive[claim.metadata.uid] = owner
            self.seen += 1
            if Counter(self._alive.values())[owner] > 1:
                self.doubles.append(owner)


async def life(cluster: Cluster, name: str, rng: random.Random) -> None:
    """One group with two pods, cut short at some moment."""
    await cluster.group(name, claim="t:t")
    await cluster.pod(f"{name}-a", name, resource="g:claim")
    await asyncio.sleep(rng.choice([0, 0.01, 0.05]))
    await cluster.pod(f"{name}-b", name, resource="g:claim")
    if rng.random() < 0.5:
        await cluster.running(f"{name}-a", f"{name}-b")
    await cluster.client.delete(PodGroup, name, "ns")
    for pod in (f"{name}-a", f"{name}-b"):
        await cluster.client.delete(Pod, pod, "ns", grace=rng.choice([None, 0]))


async def client(cluster: Cluster, number: int) -> None:
    rng = random.Random(number)
    for turn in range(GROUPS):
        # The same names again and again, so that a group follows one of its name.
        name = f"g{number}-{turn % 3}"
        while True:
            try:
                await life(cluster, name, rng)
                break
            except ApiError:  # its predecessor is not gone yet
                await asyncio.sleep(0.02)


async def kill_and_restart(cluster: Cluster) -> None:
    rng = random.Random(0)
    while True:
        await asyncio.sleep(rng.uniform(0.05, 0.3))
        part = rng.choice(["controllers", "controllers-2", "scheduler"])
        await cluster.stop(part)
        await cluster.start(part)


async def test_no_inconsistent_state_is_reached_when_groups_rapidly_come_and_go(cluster: Cluster) -> None:
    await cluster.template()
    watch = Watch()
    others = [asyncio.create_task(watch.follow(cluster)), asyncio.create_task(kill_and_restart(cluster))]
    try:
        await asyncio.gather(*(client(cluster, number) for number in range(CLIENTS)))
    finally:
        for task in others[1:]:
            task.cancel()
        await asyncio.gather(*others[1:], return_exceptions=True)

    async def nothing_is_left() -> bool:
        return not await cluster.claims() and not (await cluster.client.list(PodGroup, "ns")).items

    await eventually(nothing_is_left)
    others[0].cancel()
    await asyncio.gather(*others, return_exceptions=True)
    assert watch.doubles == []
    assert watch.seen >= CLIENTS * GROUPS / 2

    await cluster.restart("scheduler", ALL)
    await cluster.group("after", claim="t:t")
    await cluster.pod("after", "after", resource="g:claim")
    await cluster.running("after")
