"""Simulated nodes on a real API server."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from dray.api.errors import ServiceUnavailable
from dray.api.simulated import POD_RANGE, pod_address
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.node.played import EXIT_CODE, SECONDS
from dray.sim.hardware import CLASS
from dray.sim.nodes import RESTART_SECONDS
from tests.e2e.cluster import NODES, cluster
from tests.e2e.interference import Write
from tests.e2e.objects import pod

ALONE = (NODES,)


async def test_nodes_come_ready_with_lease_class_and_slices() -> None:
    async with cluster(nodes=3, devices=2, parts=ALONE) as c:

        async def published() -> bool:
            return len((await c.client.list(ResourceSlice)).items) == 3

        await c.eventually(published)
        for name in ("node-0", "node-1", "node-2"):
            node = await c.client.get(Node, name)
            assert {condition.type: condition.status for condition in node.status.conditions}["Ready"] == "True"
            assert (await c.client.get(Lease, name, "kube-node-lease")).spec.holderIdentity == name
        owners = {
            one.spec.nodeName: one.metadata.ownerReferences[0].uid for one in (await c.client.list(ResourceSlice)).items
        }
        assert owners == {one.metadata.name: one.metadata.uid for one in (await c.client.list(Node)).items}
        assert await c.client.get(DeviceClass, CLASS)


async def test_a_second_start_keeps_what_is_there() -> None:
    async with cluster(nodes=2, devices=2, parts=ALONE) as c:

        async def versions() -> dict[str, str]:
            found = (await c.client.list(ResourceSlice)).items
            return {one.metadata.uid: one.metadata.resourceVersion for one in found} if len(found) == 2 else {}

        before = await c.eventually(versions)
        await c.create(Pod, pod("p", nodeName="node-0"))
        await c.runs("p")
        await c.restart(NODES)
        await c.create(Pod, pod("q", nodeName="node-1"))
        await c.runs("q")
        assert await versions() == before
        assert (await c.pod("p")).status.phase == "Running"


async def test_a_second_start_leaves_the_status_of_a_node_and_what_others_added_to_it() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:

        async def registered() -> Node | None:
            node = (await c.client.list(Node)).items
            return node[0] if node and node[0].status.conditions else None

        node = await c.eventually(registered)
        amounts = node.status.capacity | {"example.com/dongle": "5"}
        added = replace(node.status, capacity=amounts, allocatable=amounts)
        before = await c.client.patch_status(node, added)
        await c.restart(NODES)
        await c.create(Pod, pod("p", nodeName="node-0"))
        await c.runs("p")
        assert await c.client.get(Node, "node-0") == before


async def test_pods_run_end_and_go_when_deleted() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        ends = {SECONDS: "0.05", EXIT_CODE: "4"}
        await c.create(Pod, pod("ends", nodeName="node-0", annotations=ends, restartPolicy="Never"))
        await c.create(Pod, pod("stays", nodeName="node-0"), pod("elsewhere", nodeName="unknown"))
        await c.runs("ends", phase="Failed")
        stays = await c.runs("stays")
        assert stays.status.hostIP == "198.18.0.0"
        assert stays.status.podIP == pod_address(POD_RANGE, stays.metadata.uid)
        assert stays.status.podIP.startswith("198.19.")
        await c.delete(Pod, "stays", grace=30)
        await c.gone(Pod, "stays")
        assert (await c.pod("elsewhere")).status.phase == "Pending"


@pytest.mark.parametrize("annotation", [SECONDS, EXIT_CODE])
async def test_a_pod_with_a_bad_annotation_fails_with_the_reason(annotation: str) -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        await c.create(Pod, pod("p", nodeName="node-0", annotations={annotation: "soon"}))
        failed = await c.runs("p", phase="Failed")
        assert failed.status.reason == "BadAnnotation"
        assert failed.status.message.startswith(f"annotation {annotation}: expected ")


async def test_time_goes_on_for_pods_that_ran_before_a_restart() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        await c.create(Pod, pod("p", nodeName="node-0", annotations={SECONDS: "1"}, restartPolicy="Never"))
        await c.runs("p")
        await c.restart(NODES)
        await c.runs("p", phase="Succeeded")


async def test_an_annotation_that_turns_bad_fails_the_pod() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        await c.create(Pod, pod("p", nodeName="node-0"))
        await c.runs("p")
        await c.client.patch(Pod, "p", {"metadata": {"annotations": {SECONDS: "soon"}}}, "default")
        assert "expected seconds" in (await c.runs("p", phase="Failed")).status.message


async def test_a_deleted_pod_that_must_stay_is_reported_finished() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        tree = pod("p", nodeName="node-0")
        tree["metadata"]["finalizers"] = ["example.com/stay"]
        await c.create(Pod, tree)
        await c.runs("p")
        await c.delete(Pod, "p")
        await c.runs("p", phase="Succeeded")
        await c.client.patch(Pod, "p", {"metadata": {"finalizers": None}}, "default")
        await c.gone(Pod, "p")


async def test_a_pod_that_ends_at_once_is_restarted_once_a_second_at_the_most() -> None:
    async with cluster(nodes=1, devices=0, parts=ALONE) as c:
        started = time.monotonic()
        await c.create(Pod, pod("p", nodeName="node-0", annotations={SECONDS: "0"}, restartPolicy="Always"))

        async def restarted() -> bool:
            return any(status.restartCount >= 2 for status in (await c.pod("p")).status.containerStatuses)

        await c.eventually(restarted)
        assert time.monotonic() - started > RESTART_SECONDS / 2


async def test_a_pod_whose_start_could_not_be_reported_is_reported_later() -> None:
    failures = 0

    async def fail_once(write: Write) -> None:
        nonlocal failures
        if write.type is Pod and write.changes.get("phase") == "Running" and not failures:
            failures += 1
            raise ServiceUnavailable("the connection was lost")

    async with cluster(nodes=1, devices=0, parts=()) as c:
        c.hooks[NODES] = fail_once
        await c.start(NODES)
        await c.create(Pod, pod("p", nodeName="node-0"))
        await c.runs("p")
        assert failures == 1
