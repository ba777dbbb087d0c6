"""Shares and counters are never overcommitted, whoever writes allocations, and are given back exactly."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dray.api.errors import Conflict
from dray.api.types.core import Node
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.write.holds import PREFIX, DeviceHolds
from dray.client import InProcess
from dray.store import Op
from tests import objects

DRIVER = "d.example.com"
PARTITIONS = {"small-0": 1, "small-1": 1, "half": 2, "whole": 4}
MEMORY, BANDWIDTH = 4, 10


@pytest.fixture
async def running() -> Any:
    running = await Running.open(ServerSettings(keys=None))
    await publish(InProcess(running.api, ADMIN))
    yield running
    await running.close()


@pytest.fixture
def client(running: Running) -> InProcess:
    return InProcess(running.api, ADMIN)


def drawing(much: int) -> list[dict[str, Any]]:
    return [{"counterSet": "gpu", "counters": {"memory": {"value": str(much)}}}]


async def publish(client: InProcess) -> None:
    await client.create(Node, {"metadata": {"name": "n"}})
    partitions = [{"name": name, "consumesCounters": drawing(much)} for name, much in PARTITIONS.items()]
    nic = {"name": "nic", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": str(BANDWIDTH)}}}
    split = {**nic, "name": "split", "consumesCounters": drawing(3)}
    counters = [{"name": "gpu", "counters": {"memory": {"value": str(MEMORY)}}}]
    for name, part in (("a", {"sharedCounters": counters}), ("b", {"devices": [*partitions, nic, split]})):
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, **part}
        await client.create(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


async def create_claim(client: InProcess, name: str) -> None:
    await client.create(ResourceClaim, objects.claim(name, namespace="default"))


def result(device: str, bandwidth: int | None = None, share: int = 0) -> dict[str, Any]:
    entry = {"request": "r", "driver": DRIVER, "pool": "n", "device": device}
    if bandwidth is None:
        return entry
    return entry | {
        "shareID": f"{share:08x}-0000-4000-8000-000000000000",
        "consumedCapacity": {"bandwidth": str(bandwidth)},
    }


async def allocate(client: InProcess, name: str, *results: dict[str, Any]) -> None:
    allocation = {"devices": {"results": [*results]}} if results else None
    await client.patch(ResourceClaim, name, {"status": {"allocation": allocation}}, "default", subresource="status")


def held(running: Running) -> list[str]:
    return [version.key for version in running.api.storage.cache.list(PREFIX).versions]


async def test_partitions_that_overlap_do_not_go_to_two_claims(client: InProcess, running: Running) -> None:
    for name in "abc":
        await create_claim(client, name)
    await allocate(client, "a", result("half"))
    with pytest.raises(
        Conflict, match=r"counter memory of counter set gpu in pool d.example.com/n has too little left"
    ):
        await allocate(client, "b", result("whole"))
    await allocate(client, "b", result("small-0"), result("small-1"))
    await allocate(client, "a")
    await allocate(client, "c", result("half"))
    await allocate(client, "c")
    await client.delete(ResourceClaim, "b", "default")
    assert held(running) == []


async def test_shares_stay_within_the_capacity(client: InProcess, running: Running) -> None:
    for name in "abc":
        await create_claim(client, name)
    await allocate(client, "a", result("nic", 6, 1))
    with pytest.raises(Conflict, match=r"device d.example.com/n/nic has too little bandwidth left"):
        await allocate(client, "b", result("nic", 5, 2))
    await allocate(client, "b", result("nic", 4, 2))
    with pytest.raises(Conflict, match=r"device d.example.com/n/nic is allocated to another claim"):
        await allocate(client, "c", result("nic"))
    await allocate(client, "a")
    await allocate(client, "c", result("nic", 6, 3))
    for name in "bc":
        await allocate(client, name)
    assert held(running) == []


async def test_a_shared_device_draws_on_its_counters_once(client: InProcess, running: Running) -> None:
    for name in "abc":
        await create_claim(client, name)
    await allocate(client, "a", result("split", 1, 1))
    await allocate(client, "b", result("split", 1, 2))
    with pytest.raises(Conflict):
        await allocate(client, "c", result("half"))
    await allocate(client, "a")
    with pytest.raises(Conflict):
        await allocate(client, "c", result("half"))
    await allocate(client, "b")
    await allocate(client, "c", result("half"))
    assert len(held(running)) == 2


async def test_what_a_device_drew_is_given_back_although_it_is_no_longer_published(
    client: InProcess, running: Running
) -> None:
    await create_claim(client, "a")
    await allocate(client, "a", result("half"))
    await client.delete(ResourceSlice, "b")
    await client.delete(ResourceSlice, "a")
    await allocate(client, "a")
    assert held(running) == []


async def test_keys_that_were_lost_are_made_again_from_the_claims(client: InProcess, running: Running) -> None:
    for name in "ab":
        await create_claim(client, name)
    await allocate(client, "a", result("half"), result("nic", 3, 1))
    await allocate(client, "b", result("nic", 2, 2))
    cache = running.api.storage.cache
    before = {version.key: version.value for version in cache.list(PREFIX).versions}
    assert DeviceHolds(cache).repairs() == []
    for key in before:
        await cache.commit([Op(key, None)])
    for op in DeviceHolds(cache).repairs():
        await cache.commit([op])
    assert {version.key: version.value for version in cache.list(PREFIX).versions} == before


async def withdraw(client: InProcess) -> None:
    for name in ("a", "b"):
        await client.delete(ResourceSlice, name)


async def test_what_was_given_away_while_it_was_not_published_counts_once_it_is(
    client: InProcess, running: Running
) -> None:
    for name in "abc":
        await create_claim(client, name)
    await withdraw(client)
    await allocate(client, "a", result("half"), result("nic", 6, 1))
    await client.delete(Node, "n")
    await publish(client)
    with pytest.raises(Conflict, match="counter memory of counter set gpu"):
        await allocate(client, "b", result("whole"))
    with pytest.raises(Conflict, match="too little bandwidth left"):
        await allocate(client, "b", result("nic", 5, 2))
    with pytest.raises(Conflict, match="is allocated to another claim"):
        await allocate(client, "b", result("nic"))
    await allocate(client, "b", result("small-0"), result("nic", 4, 2))
    await allocate(client, "a")
    with pytest.raises(Conflict):
        await allocate(client, "c", result("whole"))
    await allocate(client, "b")
    await allocate(client, "c", result("whole"))
    await allocate(client, "c")
    assert held(running) == []


async def test_nobody_gets_shares_of_a_withdrawn_device_beside_others(client: InProcess) -> None:
    for name in "ab":
        await create_claim(client, name)
    await allocate(client, "a", result("nic", 6, 1))
    await withdraw(client)
    with pytest.raises(Conflict, match="is not published, and claims have devices of it"):
        await allocate(client, "b", result("nic", 1, 2))
    await allocate(client, "a")
    await allocate(client, "b", result("nic", 1, 2))


async def test_a_shared_device_that_was_given_away_unpublished_draws_on_its_counters(
    client: InProcess, running: Running
) -> None:
    for name in "abc":
        await create_claim(client, name)
    await withdraw(client)
    await allocate(client, "a", result("split", 1, 1))
    await client.delete(Node, "n")
    await publish(client)
    await allocate(client, "b", result("split", 1, 2))
    for freed in "ab":
        with pytest.raises(Conflict):
            await allocate(client, "c", result("half"))
        await allocate(client, freed)
    await allocate(client, "c", result("half"))
    await allocate(client, "c")
    assert held(running) == []


async def test_keys_of_devices_that_two_claims_have_are_made_again(client: InProcess, running: Running) -> None:
    for name in "abc":
        await create_claim(client, name)
    await withdraw(client)
    for name, share in (("a", 1), ("b", 2)):
        await allocate(client, name, result("half"), result("nic", 6, share))
    await client.delete(Node, "n")
    await publish(client)
    cache = running.api.storage.cache
    for version in cache.list(PREFIX).versions:
        await cache.commit([Op(version.key, None)])
    for op in DeviceHolds(cache).repairs():
        await cache.commit([op])
    for freed in "ab":
        for wanted in (result("half"), result("nic", 5, 3)):
            with pytest.raises(Conflict):
                await allocate(client, "c", wanted)
        await allocate(client, freed)
    assert held(running) == []
    await allocate(client, "c", result("half"), result("nic", 5, 3))


class Writer:
    """A scheduler that looks at nothing: it allocates and frees at random, and lives with conflicts."""

    def __init__(self, client: InProcess, name: str, seed: int) -> None:
        self.client = client
        self.name = name
        self.random = Random(seed)
        self.shares = seed * 1000

    async def run(self, turns: int) -> None:
        await create_claim(self.client, self.name)
        for _ in range(turns):
            try:
                await allocate(self.client, self.name, *self._some())
            except Conflict:
                await asyncio.sleep(0)
            await allocate(self.client, self.name)
        with suppress(Conflict):
            await allocate(self.client, self.name, *self._some())

    def _some(self) -> list[dict[str, Any]]:
        self.shares += 1
        names = self.random.sample([*PARTITIONS, "nic", "split"], self.random.choice([1, 1, 2]))
        much = self.random.randint(1, 6)
        return [result(n, much, self.shares) if n in ("nic", "split") else result(n) for n in names]


def overcommitted(claims: tuple[ResourceClaim, ...]) -> list[str]:
    memory, used, bandwidth = 0, Counter[str](), Counter[str]()
    for one in claims:
        for entry in one.status.allocation.devices.results if one.status.allocation else ():
            used[entry.device] += 1
            bandwidth[entry.device] += int(entry.consumedCapacity.get("bandwidth", "0"))
    memory = sum(PARTITIONS.get(name, 0) for name in used) + (3 if used["split"] else 0)
    found = [f"memory {memory}"] if memory > MEMORY else []
    found += [name for name in PARTITIONS if used[name] > 1]
    return found + [name for name, much in bandwidth.items() if much > BANDWIDTH]


@pytest.mark.parametrize("seed", range(4))
async def test_writers_at_the_same_time_never_overcommit(tmp_path: Path, seed: int) -> None:
    """With a store that takes its time to commit, so that writers decide on what others are about to change."""
    running = await Running.open(ServerSettings(keys=None, store=f"sqlite:{tmp_path / 'state.db'}"))
    client = InProcess(running.api, ADMIN)
    await publish(client)
    writers = [Writer(client, f"c{at}", seed * 10 + at) for at in range(6)]
    done = asyncio.gather(*(writer.run(15) for writer in writers))
    while not done.done():
        assert overcommitted((await client.list(ResourceClaim, "default")).items) == []
        await asyncio.sleep(0)
    await done
    claims = (await client.list(ResourceClaim, "default")).items
    assert overcommitted(claims) == []
    assert DeviceHolds(running.api.storage.cache).repairs() == []
    for one in claims:
        await client.delete(ResourceClaim, one.metadata.name, "default")
    assert held(running) == []
    await running.close()
