"""A device never goes to two claims, whoever writes them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import Conflict
from dray.api.gates import FeatureGates
from dray.api.types.core import Node
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.write.holds import PREFIX
from dray.client import InProcess
from dray.store.errors import Compacted
from tests import objects


@pytest.fixture
async def client() -> Any:
    running = await Running.open(ServerSettings(keys=None))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def publish(client: InProcess, *, for_a_node: bool = True) -> None:
    if for_a_node:
        await client.create(Node, {"metadata": {"name": "n"}})
    await client.create(ResourceSlice, objects.resource_slice("s", "one", "two", driver="d.example.com"))


async def create_claim(client: InProcess, name: str, *, admin: bool = False) -> None:
    access = {"adminAccess": True} if admin else {}
    await client.create(ResourceClaim, objects.claim(name, objects.request(**access), namespace="default"))


async def allocate(client: InProcess, name: str, *devices: str) -> None:
    results = [{"request": "r", "driver": "d.example.com", "pool": "n", "device": device} for device in devices]
    allocation = {"devices": {"results": results}} if devices else None
    await client.patch(ResourceClaim, name, {"status": {"allocation": allocation}}, "default", subresource="status")


async def test_the_second_claim_that_wants_a_published_device_gets_a_conflict(client: InProcess) -> None:
    await publish(client)
    await create_claim(client, "a")
    await create_claim(client, "b")
    await allocate(client, "a", "one")
    with pytest.raises(Conflict, match=r"device d.example.com/n/one is allocated to another claim"):
        await allocate(client, "b", "one")
    assert (await client.get(ResourceClaim, "b", "default")).status.allocation is None
    await allocate(client, "b", "two")


async def test_a_device_is_free_again_after_deallocation(client: InProcess) -> None:
    await publish(client)
    await create_claim(client, "a")
    await create_claim(client, "b")
    await allocate(client, "a", "one")
    await allocate(client, "a")
    await allocate(client, "b", "one")


async def test_a_device_is_free_again_after_the_claim_is_gone(client: InProcess) -> None:
    await publish(client)
    await create_claim(client, "a")
    await create_claim(client, "b")
    await allocate(client, "a", "one")
    await client.delete(ResourceClaim, "a", "default")
    await allocate(client, "b", "one")


async def test_a_device_that_is_published_for_no_node_of_the_cluster_is_only_a_name(client: InProcess) -> None:
    await publish(client, for_a_node=False)
    await create_claim(client, "a")
    await create_claim(client, "b")
    await allocate(client, "a", "one")
    await allocate(client, "b", "one")


async def test_a_device_that_nobody_publishes_is_only_a_name(client: InProcess) -> None:
    await create_claim(client, "a")
    await create_claim(client, "b")
    await allocate(client, "a", "one")
    await allocate(client, "b", "one")


async def test_a_device_is_held_that_was_given_away_while_its_slice_was_being_replaced(client: InProcess) -> None:
    await publish(client)
    for name in ("a", "b"):
        await create_claim(client, name)
    await client.delete(ResourceSlice, "s")
    await allocate(client, "a", "one")
    await client.create(ResourceSlice, objects.resource_slice("s", "one", "two", driver="d.example.com"))
    with pytest.raises(Conflict, match=r"device d.example.com/n/one is allocated to another claim"):
        await allocate(client, "b", "one")
    await allocate(client, "a")
    await allocate(client, "b", "one")


async def test_nobody_gets_more_of_a_pool_that_was_withdrawn_while_claims_have_devices_of_it(client: InProcess) -> None:
    await publish(client)
    for name in ("a", "b"):
        await create_claim(client, name)
    await allocate(client, "a", "one")
    await client.delete(ResourceSlice, "s")
    for device in ("one", "two"):
        with pytest.raises(Conflict, match=r"pool d.example.com/n is not published, and claims have devices of it"):
            await allocate(client, "b", device)
    await allocate(client, "a")
    await allocate(client, "b", "one")


async def test_a_name_that_was_published_for_a_while_is_a_device(client: InProcess) -> None:
    await client.create(Node, {"metadata": {"name": "n"}})
    for name in ("a", "b"):
        await create_claim(client, name)
    await allocate(client, "a", "one")
    await client.create(ResourceSlice, objects.resource_slice("s", "one", driver="d.example.com"))
    await client.delete(ResourceSlice, "s")
    with pytest.raises(Conflict):
        await allocate(client, "b", "one")
    await client.delete(ResourceClaim, "a", "default")
    await allocate(client, "b", "one")


async def test_a_device_of_several_claims_that_is_published_later_is_free_after_the_last_of_them() -> None:
    running = await Running.open(ServerSettings(keys=None))
    client = InProcess(running.api, ADMIN)
    for name in ("a", "b", "c"):
        await create_claim(client, name)
        await allocate(client, name, "one")
    await publish(client)
    await create_claim(client, "d")
    for name in ("b", "a", "c"):
        with pytest.raises(Conflict, match="is allocated to another claim"):
            await allocate(client, "d", "one")
        await allocate(client, name)
    await allocate(client, "d", "one")
    await allocate(client, "d")
    assert running.api.storage.cache.list(PREFIX).versions == []
    await running.close()


async def test_a_deleted_claim_with_finalizer_gives_its_devices_back_when_it_goes(client: InProcess) -> None:
    await publish(client)
    await create_claim(client, "a")
    await create_claim(client, "b")
    await client.patch(ResourceClaim, "a", {"metadata": {"finalizers": ["example.com/f"]}}, "default")
    await allocate(client, "a", "one")
    await client.delete(ResourceClaim, "a", "default")
    with pytest.raises(Conflict):
        await allocate(client, "b", "one")
    await client.patch(ResourceClaim, "a", {"metadata": {"finalizers": None}}, "default")
    await allocate(client, "b", "one")


async def test_published_devices_are_counted_again_when_the_cache_starts_over() -> None:
    running = await Running.open(ServerSettings(keys=None))
    client, cache = InProcess(running.api, ADMIN), running.api.storage.cache
    await cache._start_over(Compacted(1, cache.revision))  # as after a long absence from the log
    await publish(client)
    for name in "ab":
        await create_claim(client, name)
    await allocate(client, "a", "one")
    with pytest.raises(Conflict, match="is allocated to another claim"):
        await allocate(client, "b", "one")
    await running.close()


async def test_devices_that_do_not_go_together_do_not_draw_on_one_set() -> None:
    running = await Running.open(
        ServerSettings(keys=None, gates=FeatureGates.parse("DRADeviceCompatibilityGroups=true"))
    )
    client = InProcess(running.api, ADMIN)
    await client.create(Node, {"metadata": {"name": "n"}})
    place = {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2},
    }
    counters = [{"name": "gpu", "counters": {"memory": {"value": "8"}}}]
    await client.create(ResourceSlice, {"metadata": {"name": "c"}, "spec": {**place, "sharedCounters": counters}})
    devices = []
    for name, groups in (("mig-0", ["mig"]), ("mig-1", ["mig", "mps"]), ("vgpu", ["vgpu"]), ("plain", [])):
        drawn = {"counterSet": "gpu", "counters": {"memory": {"value": "1"}}, "compatibilityGroups": groups}
        devices.append({"name": name, "consumesCounters": [drawn]})
    await client.create(ResourceSlice, {"metadata": {"name": "d"}, "spec": {**place, "devices": devices}})
    for name in ("a", "b"):
        await create_claim(client, name)
    await allocate(client, "a", "mig-0")
    for other in ("vgpu", "plain"):
        with pytest.raises(Conflict, match=rf"device d.example.com/n/{other} does not go with others"):
            await allocate(client, "b", other)
    await allocate(client, "b", "mig-1")
    await allocate(client, "b")
    await allocate(client, "a")
    await allocate(client, "b", "vgpu")
    await running.close()
