"""Devices that stand for cpu and memory of their node: counted with requests, told in the pod, given back with it."""

from __future__ import annotations

from typing import Any

from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.inspect.explain import explain_pod
from dray.inspect.reading import fetch
from tests.e2e.cluster import SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, device_class, pod, request, slice_of, template
from tests.saying import refused

DRIVER = "cpu.example.com"
ON = "DRANodeAllocatableResources=true"
SIZE = 64  # cpus of a simulated node


async def publish(c: Cluster, nodes: int = 1, shares: str = "40") -> None:
    """A device for all cpus of each node, of which claims have shares; and one that needs memory beside it."""
    for at in range(nodes):
        cpus: dict[str, Any] = {
            "name": "cpus",
            "allowMultipleAllocations": True,
            "capacity": {"cpus": {"value": "100"}},
            "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "cpus", "capacityMultiplier": "1"}}},
        }
        heavy = {
            "name": "heavy",
            "nodeAllocatableResources": {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "2Gi"}}},
        }
        await c.create(ResourceSlice, slice_of(f"cpus-{at}", f"node-{at}", cpus, heavy, driver=DRIVER))
    await c.create(DeviceClass, device_class("cpus", f'device.driver == "{DRIVER}" && device.allowMultipleAllocations'))
    await c.create(
        DeviceClass, device_class("heavy", f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations')
    )
    wanted = request(class_="cpus", capacity={"requests": {"cpus": shares}})
    await c.create(ResourceClaimTemplate, template("cpus", wanted))
    await c.create(ResourceClaimTemplate, template("heavy", request(class_="heavy")))


def asking(name: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    made = pod(name, templates=["cpus"], **more)
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return made


async def test_what_devices_stand_for_is_counted_with_requests_and_given_back() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await publish(c)
        await c.create(Pod, asking("a", "10"))
        running = await c.runs("a")
        [told] = running.status.nodeAllocatableResourceClaimStatuses
        [generated] = running.status.resourceClaimStatuses
        assert told.resourceClaimName == generated.resourceClaimName
        assert [(one.name, one.quantity) for one in told.mapping] == [("cpu", "40")]
        assert told.containers == ("main",)
        await c.create(Pod, asking("b"))
        await c.waits("b", refused(NodeCode.DEVICES_INSUFFICIENT, 1, subject="cpu"))
        found = explain_pod(await fetch(c.client, "default"), "default", "b")
        [reason] = found.nodes[0].reasons
        assert (reason.code, reason.wanted, reason.found) == (NodeCode.DEVICES_INSUFFICIENT, 41_000, 14_000)
        assert found.nodes[0].rules == (reason,)
        assert found.cause.code == "NodeRules"
        await c.restart(SCHEDULER, ON)
        await c.waits("b", refused(NodeCode.DEVICES_INSUFFICIENT, 1, subject="cpu"))
        await c.delete(Pod, "a")
        await c.runs("b")


async def test_a_pod_goes_where_there_is_room_for_what_its_devices_stand_for() -> None:
    async with cluster(nodes=3, devices=1, gates=ON) as c:
        await publish(c, nodes=3)
        await c.create(Pod, *(asking(f"p{at}") for at in range(3)))
        await c.runs("p0", "p1", "p2")
        assert {(await c.pod(f"p{at}")).spec.nodeName for at in range(3)} == {"node-0", "node-1", "node-2"}


async def test_overhead_is_told_apart_from_what_is_mapped() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await publish(c)
        await c.create(Pod, pod("p", templates=["heavy"]))
        [told] = (await c.runs("p")).status.nodeAllocatableResourceClaimStatuses
        assert told.mapping == ()
        assert [(one.name, one.perPod, one.perContainer) for one in told.overhead] == [("memory", "1Gi", "2Gi")]


async def test_a_claim_that_stands_for_a_part_of_a_node_is_not_shared_by_pods() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await publish(c, shares="10")
        wanted = request(class_="cpus", capacity={"requests": {"cpus": "10"}})
        await c.create(ResourceClaim, claim("shared", wanted))
        await c.create(Pod, pod("a", claims=["shared"]))
        await c.runs("a")
        await c.create(Pod, pod("b", claims=["shared"]))
        await c.waits("b", refused(NodeCode.NODE_CLAIM_SHARED, 1, subject="shared"))
        await c.delete(Pod, "a")
        await c.runs("b")


async def test_without_the_gate_devices_take_nothing_but_themselves() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c)
        await c.create(Pod, asking("a"), asking("b"))
        assert (await c.runs("a", "b")).status.nodeAllocatableResourceClaimStatuses == ()
        for one in (await c.client.list(ResourceSlice)).items:
            assert not any(device.nodeAllocatableResources for device in one.spec.devices)


async def test_off_and_on_again_counts_what_was_stored() -> None:
    async with cluster(nodes=1, devices=1, gates=ON) as c:
        await publish(c)
        await c.create(Pod, asking("a"))
        await c.runs("a")
        await c.restart(SCHEDULER, "")
        await c.create(Pod, asking("b"))
        running = await c.runs("b")  # whose cpus nobody counts
        assert running.status.nodeAllocatableResourceClaimStatuses == ()
        await c.restart(SCHEDULER, ON)
        await c.create(Pod, asking("c"))
        await c.waits("c")
        await c.delete(Pod, "a")
        await c.delete(Pod, "b")
        assert (await c.runs("c")).status.nodeAllocatableResourceClaimStatuses != ()
