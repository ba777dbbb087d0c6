"""Garbage collection by owner references, on a real server."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from dray.api.errors import NotFound
from dray.api.gates import FeatureGates
from dray.api.types.core import ConfigMap, Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.background.turns import ALLOWANCE, WRITE
from dray.client import Client, InProcess, Object
from dray.controllers import ControllerManager
from dray.controllers.garbage import Dependent, Dependents, GarbageCollector
from dray.store import MemoryLog
from tests.controllers.conftest import Start, exists, gone, quiet
from tests.controllers.counting import PerRound
from tests.objects import pod
from tests.waiting import eventually, within


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


def reference(owner: Object, block: bool | None = None, **changes: str) -> dict[str, Any]:
    meta = owner.metadata
    fields = {"apiVersion": owner.apiVersion, "kind": owner.kind, "name": meta.name, "uid": meta.uid, **changes}
    return fields if block is None else {**fields, "blockOwnerDeletion": block}


async def config_map(client: Client, name: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = ()) -> ConfigMap:
    metadata = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return await client.create(ConfigMap, {"metadata": metadata}, namespace="ns")


async def owners_of(client: Client, name: str) -> list[str]:
    return [ref.name for ref in (await client.get(ConfigMap, name, "ns")).metadata.ownerReferences]


async def test_background_deletion_takes_dependents_of_dependents_along(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    b = await config_map(client, "b", reference(a))
    await config_map(client, "c", reference(b))
    await config_map(client, "free")
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns")
        await gone(client, ConfigMap, "b", "ns")
        await gone(client, ConfigMap, "c", "ns")
    assert await exists(client, ConfigMap, "free", "ns")


async def test_what_was_left_while_nobody_ran_is_found_at_start(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    await config_map(client, "b", reference(a))
    await client.delete(ConfigMap, "a", "ns")
    async with start(GarbageCollector):
        await gone(client, ConfigMap, "b", "ns")


async def test_an_owner_that_never_was_counts_as_gone(client: Client, start: Start) -> None:
    async with start(GarbageCollector):
        await config_map(client, "b", {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "x"})
        await gone(client, ConfigMap, "b", "ns")


async def test_another_object_of_the_same_name_is_no_owner(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    async with start(GarbageCollector):
        await config_map(client, "b", reference(a, uid="another"))
        await gone(client, ConfigMap, "b", "ns")
        assert await exists(client, ConfigMap, "a", "ns")


async def test_one_living_owner_keeps_an_object_and_the_others_are_struck(client: Client, start: Start) -> None:
    a, b = await config_map(client, "a"), await config_map(client, "b")
    await config_map(client, "c", reference(a), reference(b))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns")

        async def struck() -> bool:
            return await owners_of(client, "c") == ["b"]

        await eventually(struck)


async def test_foreground_deletion_waits_for_those_that_block(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    await config_map(client, "held", reference(a, block=True), finalizers=("test/hold",))
    await config_map(client, "loose", reference(a), finalizers=("test/hold",))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Foreground")

        async def both_deleting() -> bool:
            objects = [await client.get(ConfigMap, name, "ns") for name in ("held", "loose")]
            return all(o.metadata.deletionTimestamp is not None for o in objects)

        await eventually(both_deleting)
        await quiet()
        assert await exists(client, ConfigMap, "a", "ns")
        await client.patch(ConfigMap, "held", {"metadata": {"finalizers": None}}, "ns")
        await gone(client, ConfigMap, "a", "ns")
        assert await exists(client, ConfigMap, "loose", "ns")


async def test_foreground_deletion_takes_dependents_along_that_come_late(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    await config_map(client, "held", reference(a, block=True), finalizers=("test/hold",))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Foreground")

        async def deleting() -> bool:
            return (await client.get(ConfigMap, "held", "ns")).metadata.deletionTimestamp is not None

        await eventually(deleting)
        await config_map(client, "late", reference(a, block=True))
        await gone(client, ConfigMap, "late", "ns")
        assert await exists(client, ConfigMap, "a", "ns")


async def test_foreground_deletion_goes_through_generations(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    b = await config_map(client, "b", reference(a, block=True))
    await config_map(client, "c", reference(b, block=True), finalizers=("test/hold",))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Foreground")

        async def reached() -> bool:
            return (await client.get(ConfigMap, "c", "ns")).metadata.deletionTimestamp is not None

        await eventually(reached)
        assert await exists(client, ConfigMap, "b", "ns")
        await client.patch(ConfigMap, "c", {"metadata": {"finalizers": None}}, "ns")
        for name in ("c", "b", "a"):
            await gone(client, ConfigMap, name, "ns")


async def test_foreground_deletion_of_a_circle_ends(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    b = await config_map(client, "b", reference(a, block=True))
    await client.patch(ConfigMap, "a", {"metadata": {"ownerReferences": [reference(b, block=True)]}}, "ns")
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Foreground")
        await gone(client, ConfigMap, "a", "ns")
        await gone(client, ConfigMap, "b", "ns")


async def test_a_dependent_that_lets_go_frees_its_owner(client: Client, start: Start) -> None:
    a, other = await config_map(client, "a"), await config_map(client, "other")
    await config_map(client, "b", reference(a, block=True), reference(other), finalizers=("test/hold",))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Foreground")
        await gone(client, ConfigMap, "a", "ns")
    assert await owners_of(client, "b") == ["other"]


async def test_orphaned_dependents_stay(client: Client, start: Start) -> None:
    a = await config_map(client, "a")
    await config_map(client, "b", reference(a))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Orphan")
        await gone(client, ConfigMap, "a", "ns")
        await quiet()
    assert await owners_of(client, "b") == []


async def test_orphaned_dependents_keep_their_other_owners(client: Client, start: Start) -> None:
    a, other = await config_map(client, "a"), await config_map(client, "other")
    await config_map(client, "b", reference(a), reference(other))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation="Orphan")
        await gone(client, ConfigMap, "a", "ns")
    assert await owners_of(client, "b") == ["other"]


@pytest.mark.parametrize("propagation", ["Orphan", "Foreground"])
async def test_an_owner_without_dependents_waits_for_finalizers_of_others(
    client: Client, start: Start, propagation: str
) -> None:
    await config_map(client, "a", finalizers=("example.com/others",))
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "a", "ns", propagation=propagation)

        async def is_let_go() -> bool:
            return (await client.get(ConfigMap, "a", "ns")).metadata.finalizers == ("example.com/others",)

        await eventually(is_let_go)


async def test_cluster_wide_owners_reach_into_namespaces(client: Client, start: Start) -> None:
    node = await client.create(Node, {"metadata": {"name": "n"}})
    await config_map(client, "b", reference(node))
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    await client.create(ResourceSlice, {"metadata": {"name": "s", "ownerReferences": [reference(node)]}, "spec": spec})
    async with start(GarbageCollector):
        await client.delete(Node, "n")
        await gone(client, ConfigMap, "b", "ns")
        await gone(client, ResourceSlice, "s")


async def test_owners_that_cannot_be_judged_keep_their_dependents(client: Client, start: Start) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"}
    await config_map(client, "b", unknown)
    owner = await config_map(client, "owner")
    metadata = {"name": "cluster-wide", "ownerReferences": [reference(owner)]}
    await client.create(DeviceClass, {"metadata": metadata, "spec": {}})
    async with start(GarbageCollector):
        await client.delete(ConfigMap, "owner", "ns")
        await quiet()
    assert await exists(client, ConfigMap, "b", "ns")
    assert await exists(client, DeviceClass, "cluster-wide")


async def test_claims_go_with_their_pod(client: Client, start: Start) -> None:
    pod = await client.create(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, namespace="ns"
    )
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    metadata = {"name": "claim", "ownerReferences": [reference(pod, block=True)]}
    await client.create(
        ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}, namespace="ns"
    )
    async with start(GarbageCollector):
        await client.delete(Pod, "p", "ns")
        await gone(client, ResourceClaim, "claim", "ns")


async def test_claims_are_collected_also_while_their_api_is_off(server: Running, client: Client) -> None:
    owner = await config_map(client, "owner")
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    metadata = {"name": "claim", "ownerReferences": [reference(owner)]}
    await client.create(
        ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}, namespace="ns"
    )
    gates = FeatureGates.parse("DynamicResourceAllocation=false")
    off = Running(MemoryLog(), server.api.storage.cache, ServerSettings(authenticate=False, gates=gates))
    manager = ControllerManager(InProcess(off.api, ADMIN), gates=gates)
    running = asyncio.create_task(manager.run())
    await within(manager.ready.wait())
    await client.delete(ConfigMap, "owner", "ns")
    await gone(client, ResourceClaim, "claim", "ns")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("seed", range(4))
async def test_after_random_deletions_exactly_the_rightful_remain(client: Client, start: Start, seed: int) -> None:
    """A random graph, random deletions in the background: an object lives if it is a root or has a living owner."""
    chance = random.Random(seed)
    objects: dict[str, ConfigMap] = {}
    owners: dict[str, list[str]] = {}
    async with start(GarbageCollector):
        for number in range(40):
            name = f"o{number}"
            owners[name] = chance.sample(sorted(objects), min(len(objects), chance.choice((0, 0, 1, 1, 2))))
            objects[name] = await config_map(client, name, *(reference(objects[o]) for o in owners[name]))
        killed = set(chance.sample(sorted(objects), 10))
        for name in sorted(killed):
            if await exists(client, ConfigMap, name, "ns"):
                await client.delete(ConfigMap, name, "ns")
        alive: set[str] = set()
        for name in objects:  # owners come first
            if name not in killed and (not owners[name] or alive & set(owners[name])):
                alive.add(name)

        async def settled() -> bool:
            page = await client.list(ConfigMap, "ns")
            return {item.metadata.name for item in page.items} == alive

        await eventually(settled)


class Unserved(InProcess):
    """A server without ConfigMaps, whose answer names no object."""

    async def get(self, type_: Any, name: str, namespace: str = "") -> Any:
        if type_ is ConfigMap:
            raise NotFound("the server could not find the requested resource")
        return await super().get(type_, name, namespace)


async def test_an_owner_whose_resource_is_not_served_does_not_count_as_gone(
    server: Running, client: Client, start: Start
) -> None:
    own = Unserved(server.api, ADMIN)
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "elsewhere", "uid": "x"}]
    await client.create(Pod, pod("kept", metadata={"ownerReferences": owners}), namespace="ns")
    async with start(GarbageCollector, own=own):
        a = await client.create(Pod, pod("a"), namespace="ns")
        await client.create(Pod, pod("b", metadata={"ownerReferences": [reference(a)]}), namespace="ns")
        await client.delete(Pod, "a", "ns", grace=0)
        await gone(client, Pod, "b", "ns")  # it works, and has looked at the other by now
        assert await exists(client, Pod, "kept", "ns")


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_the_dependents_of_one_owner_are_handled_a_few_in_each_round_of_the_loop(
    client: Client, start: Start, propagation: str
) -> None:
    a = await config_map(client, "a")
    for number in range(150):
        await config_map(client, f"d{number}", reference(a, block=True))
    counted = PerRound(client)
    async with start(GarbageCollector, own=cast(Client, counted)):
        await client.delete(ConfigMap, "a", "ns", propagation=propagation)
        await gone(client, ConfigMap, "a", "ns")

        async def owned() -> bool:
            return any(obj.metadata.ownerReferences for obj in (await client.list(ConfigMap, "ns")).items)

        async def is_done() -> bool:
            return not await owned()

        await eventually(is_done)
    assert sum(counted.writes.values()) >= 150
    assert counted.most <= 2 * ALLOWANCE // WRITE


async def test_an_owner_that_waits_is_not_looked_at_for_each_of_its_dependents(client: Client, start: Start) -> None:
    """Looking at an owner means looking at all its dependents."""
    a = await config_map(client, "a", finalizers=("example.com/hold",))
    for number in range(20):
        await config_map(client, f"d{number}", reference(a, block=True), finalizers=("example.com/keep",))
    looks = 0
    found = Dependents.of

    def of(self: Dependents, uid: str) -> list[Dependent]:
        nonlocal looks
        looks += uid == a.metadata.uid
        return found(self, uid)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Dependents, "of", of)
        async with start(GarbageCollector):
            await client.delete(ConfigMap, "a", "ns", propagation="Foreground")
            for number in range(20):
                name = f"d{number}"

                async def is_going(name: str = name) -> bool:
                    return (await client.get(ConfigMap, name, "ns")).metadata.deletionTimestamp is not None

                await eventually(is_going)
                await client.patch(ConfigMap, name, {"metadata": {"finalizers": []}}, "ns")
                await gone(client, ConfigMap, name, "ns")
                await quiet(0.01)

            async def is_freed() -> bool:
                return [*(await client.get(ConfigMap, "a", "ns")).metadata.finalizers] == ["example.com/hold"]

            await eventually(is_freed)
    assert looks < 10
