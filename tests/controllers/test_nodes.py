"""What nodes leave behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import Namespace, Node, Pod, Taint
from dray.api.types.resource import ResourceSlice
from dray.client import Client, ManualClock
from dray.controllers.nodes import OUT_OF_SERVICE, NodeGarbage, must_leave
from tests import objects
from tests.controllers.conftest import Start, exists, gone, quiet
from tests.waiting import eventually


@pytest.fixture(autouse=True)
async def namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "ns"}})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def create_node(
    client: Client, name: str, *, ready: bool = True, taints: tuple[dict[str, str], ...] = ()
) -> Node:
    await client.create(Node, objects.node(name, taints=list(taints)))
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return await client.patch(Node, name, {"status": {"conditions": conditions}}, subresource="status")


async def create_pod(client: Client, name: str, where: str, **spec: Any) -> Pod:
    return await client.create(Pod, objects.pod(name, node=where, **spec), namespace="ns")


async def resource_slice(client: Client, name: str, where: str) -> None:
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": where, "pool": pool}
    await client.create(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


async def test_pods_and_slices_of_a_removed_node_go_after_the_quarantine(
    client: Client, start: Start, clock: ManualClock
) -> None:
    for name in ("n", "other"):
        await create_node(client, name)
        await create_pod(client, f"on-{name}", name)
        await resource_slice(client, f"of-{name}", name)
    async with start(NodeGarbage, clock=clock):
        await client.delete(Node, "n")
        await clock.advance(39)
        assert await exists(client, Pod, "on-n", "ns")
        await clock.advance(2)
        await gone(client, Pod, "on-n", "ns")
        await gone(client, ResourceSlice, "of-n")
    assert await exists(client, Pod, "on-other", "ns")
    assert await exists(client, ResourceSlice, "of-other")


async def test_a_node_that_comes_back_in_time_keeps_its_pods(client: Client, start: Start, clock: ManualClock) -> None:
    await create_node(client, "n")
    await create_pod(client, "p", "n")
    async with start(NodeGarbage, clock=clock):
        await client.delete(Node, "n")
        await clock.advance(20)
        await create_node(client, "n")
        await clock.advance(60)
        await quiet()
    assert await exists(client, Pod, "p", "ns")


async def test_a_pod_bound_to_a_node_that_never_was_goes_but_slices_stay(
    client: Client, start: Start, clock: ManualClock
) -> None:
    await resource_slice(client, "s", "never")
    async with start(NodeGarbage, clock=clock):
        await create_pod(client, "p", "never")
        await clock.advance(41)
        await gone(client, Pod, "p", "ns")
    assert await exists(client, ResourceSlice, "s")


async def test_a_pod_is_failed_before_it_is_deleted(client: Client, start: Start, clock: ManualClock) -> None:
    metadata = {"name": "p", "finalizers": ["test/hold"]}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "gone"}
    await client.create(Pod, {"metadata": metadata, "spec": spec}, namespace="ns")
    async with start(NodeGarbage, clock=clock):
        await clock.advance(41)

        async def marked() -> bool:
            return (await client.get(Pod, "p", "ns")).metadata.deletionTimestamp is not None

        await eventually(marked)
    found = await client.get(Pod, "p", "ns")
    assert found.status.phase == "Failed"
    (condition,) = [c for c in found.status.conditions if c.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "DeletionByPodGC")


TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}


async def test_a_dead_node_that_is_out_of_service_loses_its_pods_at_once(client: Client, start: Start) -> None:
    await create_node(client, "n", ready=False)
    await create_pod(client, "p", "n")
    await create_pod(client, "tolerant", "n", tolerations=[{"operator": "Exists"}])
    async with start(NodeGarbage):
        await quiet()
        assert await exists(client, Pod, "p", "ns")
        await client.patch(Node, "n", {"spec": {"taints": [TAINT]}})
        await gone(client, Pod, "p", "ns")
        assert await exists(client, Pod, "tolerant", "ns")
        await client.delete(Pod, "tolerant", "ns")  # waits for a node that will never answer
        await gone(client, Pod, "tolerant", "ns")


async def test_a_node_that_is_ready_is_believed_more_than_its_taint(client: Client, start: Start) -> None:
    await create_node(client, "n", taints=(TAINT,))
    await create_pod(client, "p", "n")
    async with start(NodeGarbage):
        await quiet()
    assert await exists(client, Pod, "p", "ns")


@pytest.mark.parametrize(
    ("toleration", "leaves"),
    [
        ({"operator": "Exists"}, False),
        ({"key": OUT_OF_SERVICE, "operator": "Exists"}, False),
        ({"key": OUT_OF_SERVICE, "operator": "Equal", "value": "nodeshutdown"}, False),
        ({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}, False),
        ({"key": OUT_OF_SERVICE, "value": "other"}, True),
        ({"key": OUT_OF_SERVICE, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, True),
    ],
)
def test_tolerations_keep_pods_where_they_are(toleration: dict[str, str], leaves: bool) -> None:
    pod = msgspec.convert({"spec": {"tolerations": [toleration]}}, Pod)
    assert must_leave(pod, Taint(**TAINT)) is leaves
