"""Devices for which drivers are not called on nodes go to nodes that know how to leave a call out."""

from __future__ import annotations

from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.e2e.cluster import SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, device_class, on_node, pod, request, slice_of
from tests.saying import refused

ON = "DRAOptionalNodeOperations=true"
DRIVER = "fabric.example.com"


async def publish(c: Cluster) -> None:
    fabric = slice_of("fabric", "", {"name": "d0"}, {"name": "d1"}, driver=DRIVER, pool="fabric")
    fabric["spec"] |= {"allNodes": True, "skipNodeOperations": ["*"]}
    await c.create(ResourceSlice, fabric)
    await c.create(DeviceClass, device_class("fabric", f'device.driver == "{DRIVER}"'))

    async def declared() -> bool:
        nodes = (await c.client.list(Node)).items
        return len(nodes) == 2 and all(node.status.declaredFeatures for node in nodes)

    await c.eventually(declared)
    await c.client.patch(Node, "node-1", {"status": {"declaredFeatures": None}}, subresource="status")


async def test_a_node_that_does_not_declare_the_feature_is_no_place_for_such_devices() -> None:
    async with cluster(nodes=2, devices=1, gates=ON) as c:
        await publish(c)
        await c.create(ResourceClaim, claim("a", request(class_="fabric")), claim("b", request(class_="fabric")))
        await c.create(Pod, pod("far", claims=["a"], **on_node("node-1")))
        await c.waits("far", refused(NodeCode.LACKS_FEATURE, 1, subject="DRAOptionalNodeOperations"))
        await c.create(Pod, pod("near", claims=["b"]))
        assert (await c.runs("near")).spec.nodeName == "node-0"
        allocation = (await c.claim("b")).status.allocation
        assert allocation is not None
        assert allocation.devices.results[0].skipNodeOperations == ("*",)
        await c.create(Pod, pod("with", claims=["b"], **on_node("node-1")))
        await c.waits("with", refused(NodeCode.LACKS_FEATURE, 1, subject="DRAOptionalNodeOperations"))
        await c.client.patch(
            Node, "node-1", {"status": {"declaredFeatures": [ON.partition("=")[0]]}}, subresource="status"
        )
        await c.runs("far", "with")


async def test_off_and_on_again_with_pods_that_run() -> None:
    async with cluster(nodes=2, devices=1, gates=ON) as c:
        await publish(c)
        await c.create(ResourceClaim, claim("a", request(class_="fabric")), claim("b", request(class_="fabric")))
        await c.create(Pod, pod("p", claims=["a"]))
        await c.runs("p")
        await c.restart(SCHEDULER, "")
        await c.create(Pod, pod("q", claims=["b"], **on_node("node-1")))
        await c.runs("q")  # as nobody asks whether the node knows how
        allocation = (await c.claim("b")).status.allocation
        assert allocation is not None
        assert allocation.devices.results[0].skipNodeOperations == ()
        await c.restart(SCHEDULER, ON)
        for name in ("p", "q"):
            await c.delete(Pod, name)
            await c.gone(Pod, name)

        async def free() -> bool:
            return not c.scheduler.core.state.devices.index.taken

        await c.eventually(free)
