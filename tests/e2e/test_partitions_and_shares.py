"""Partitions of a GPU and shares of a NIC, through the whole control plane: never more than there is, and all given back."""

from __future__ import annotations

from typing import Any

from dray.allocator import Features
from dray.allocator.verification import overcommitted
from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaimTemplate, ResourceSlice
from dray.core.configuration import Configuration, SchedulerProfile
from tests.e2e.cluster import SCHEDULER, SECOND_SCHEDULER, Cluster, cluster
from tests.e2e.objects import device_class, pod, request, slice_of, template
from tests.saying import refused

MIG, NIC = "mig.example.com", "nic.example.com"
OFF = "DRAPartitionableDevices=false,DRAConsumableCapacity=false,DRAFractionalCapacityRange=false"


def partition(name: str, profile: str, memory: int) -> dict[str, Any]:
    drawn = [{"counterSet": "gpu-0", "counters": {"memory": {"value": str(memory)}}}]
    return {"name": name, "attributes": {"profile": {"string": profile}}, "consumesCounters": drawn}


async def publish(c: Cluster) -> None:
    """One GPU with memory for eight small partitions or two halves, and one NIC with ten units of bandwidth."""
    node = (await c.client.list(Node)).items[0].metadata.name
    counters = slice_of("gpu-counters", node, driver=MIG, pool="gpus", count=2)
    counters["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "8"}}}]
    del counters["spec"]["devices"]
    parts = [partition(f"small-{at}", "small", 1) for at in range(8)]
    parts += [partition(f"half-{at}", "half", 4) for at in range(2)]
    nic = {"name": "nic-0", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10"}}}
    await c.create(ResourceSlice, counters)
    await c.create(ResourceSlice, slice_of("gpu-parts", node, *parts, driver=MIG, pool="gpus", count=2))
    await c.create(ResourceSlice, slice_of("nics", node, nic, driver=NIC, pool="nics"))
    await c.create(DeviceClass, device_class("mig", f'device.driver == "{MIG}"'))
    await c.create(DeviceClass, device_class("nic", f'device.driver == "{NIC}"'))
    for profile in ("small", "half"):
        wanted = request(class_="mig", selector=f'device.attributes["{MIG}"].profile == "{profile}"')
        await c.create(ResourceClaimTemplate, template(profile, wanted))
    share = request(class_="nic", capacity={"requests": {"bandwidth": "4"}})
    await c.create(ResourceClaimTemplate, template("share", share))


async def sound(c: Cluster) -> None:
    """Nothing is taken beyond what is published."""
    slices = (await c.client.list(ResourceSlice)).items
    results = [claim.status.allocation for claim in await c.claims() if claim.status.allocation is not None]
    assert overcommitted(results, slices, (), (), Features()) == []


async def nothing_held(c: Cluster) -> bool:
    index = c.scheduler.core.state.devices.index
    held = c.running.api.storage.cache.list("deviceholds/").versions
    return not index.taken and not index.shares and not held


async def test_pods_get_partitions_until_the_counters_end_and_give_them_back() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c)
        await c.create(Pod, pod("half", templates=["half"]), *(pod(f"s{at}", templates=["small"]) for at in range(4)))
        await c.runs("half", *(f"s{at}" for at in range(4)))
        await c.create(Pod, pod("late", templates=["half"]))
        await c.waits("late", refused(NodeCode.CANNOT_ALLOCATE, 1))
        await sound(c)
        for at in range(4):
            await c.delete(Pod, f"s{at}")
        await c.runs("late")
        await sound(c)
        for name in ("half", "late"):
            await c.delete(Pod, name)
        await c.eventually(lambda: nothing_held(c))


async def test_pods_share_a_device_and_a_restarted_scheduler_knows_it() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c)
        await c.create(Pod, pod("a", templates=["share"]))
        await c.runs("a")
        await c.restart(SCHEDULER)
        await c.create(Pod, pod("b", templates=["share"]))
        await c.runs("b")
        await c.create(Pod, pod("c", templates=["share"]))
        await c.waits("c", refused(NodeCode.CANNOT_ALLOCATE, 1))
        await sound(c)
        await c.delete(Pod, "a")
        await c.runs("c")
        await sound(c)
        for name in ("b", "c"):
            await c.delete(Pod, name)
        await c.eventually(lambda: nothing_held(c))


async def test_two_schedulers_never_give_away_more_than_there_is() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c)
        c.configurations[SECOND_SCHEDULER] = Configuration({"second": SchedulerProfile("second")})
        await c.start(SECOND_SCHEDULER)
        names = ["default-scheduler", "second"]
        wanted = [
            pod(f"{kind}{at}", templates=[kind], schedulerName=names[at % 2])
            for at in range(6)
            for kind in ("small", "half", "share")
        ]
        await c.create(Pod, *wanted)

        async def settled() -> bool:
            await sound(c)
            pods = (await c.client.list(Pod, "default")).items
            told = [any(one.type == "PodScheduled" for one in each.status.conditions) for each in pods]
            return all(told)

        await c.eventually(settled)
        await c.stop(SECOND_SCHEDULER)
        await sound(c)


async def test_gates_that_are_off_pass_partitions_and_shares_over_and_what_is_held_stays_held() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c)
        await c.create(Pod, pod("half", templates=["half"]), pod("share", templates=["share"]))
        await c.runs("half", "share")
        await c.restart(SCHEDULER, OFF)
        await c.create(Pod, pod("small", templates=["small"]))
        await c.waits("small", refused(NodeCode.CANNOT_ALLOCATE, 1))
        await c.restart(SCHEDULER)
        await c.runs("small")
        await sound(c)
        for name in ("half", "share", "small"):
            await c.delete(Pod, name)
        await c.eventually(lambda: nothing_held(c))


async def test_a_tainted_partition_is_not_given_to_anybody() -> None:
    async with cluster(nodes=1, devices=1) as c:
        taint = {"key": "broken", "effect": "NoSchedule"}
        selector = {"driver": MIG, "pool": "gpus", "device": "half-0"}
        rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}}
        await publish(c)
        await c.create(DeviceTaintRule, rule)
        await c.create(Pod, pod("p", templates=["half"]))
        await c.runs("p")
        [claim] = await c.claims()
        assert claim.status.allocation is not None
        assert [result.device for result in claim.status.allocation.devices.results] == ["half-1"]
