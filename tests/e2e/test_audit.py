"""The audit that runs through all tests finds what it is there for."""

from __future__ import annotations

from typing import Any

from dray.api.podclaims import CLAIM_FINALIZER, POD_CLAIM_ANNOTATION
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import claim, pod
from tests.waiting import eventually


async def hold(c: Cluster, name: str, finalizers: list[str], consumer: Pod | None = None) -> None:
    """A claim that holds a device of a driver that nobody knows, which the server does not guard."""
    tree = claim(name)
    tree["metadata"]["finalizers"] = finalizers
    await c.create(ResourceClaim, tree)
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
    status: dict[str, Any] = {"allocation": {"devices": {"results": [result]}}}
    if consumer is not None:
        meta = consumer.metadata
        status["reservedFor"] = [{"resource": "pods", "name": meta.name, "uid": meta.uid}]
    await c.client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


async def found(c: Cluster, text: str) -> None:
    """Wait for a finding, and take it out so that the test passes."""

    async def look() -> bool:
        return any(text in one for one in c.audit.findings)

    await eventually(look)
    c.audit.findings.clear()


async def test_a_device_in_two_claims_is_found() -> None:
    async with cluster(nodes=0, parts=()) as c:
        await hold(c, "a", [CLAIM_FINALIZER])
        await c.quiet(0.05)
        await hold(c, "b", [CLAIM_FINALIZER])
        await found(c, "device d.example.com/p/x is allocated to 2 claims, last to default/b")


async def test_an_allocation_without_finalizer_is_found() -> None:
    async with cluster(nodes=0, parts=()) as c:
        await hold(c, "a", [])
        await found(c, "claim default/a is allocated without its finalizer")


async def test_two_claims_for_one_entry_are_found() -> None:
    async with cluster(nodes=0, parts=()) as c:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
        for name in ("a", "b"):
            tree = claim(name)
            tree["metadata"] |= {"ownerReferences": [owner], "annotations": {POD_CLAIM_ANNOTATION: "gpu"}}
            await c.create(ResourceClaim, tree)
        await found(c, "there is more than one claim for entry gpu of 1, last default/b")


async def test_a_running_pod_that_loses_its_reservation_is_found() -> None:
    async with cluster(nodes=0, parts=()) as c:
        runs = await c.create(Pod, pod("p", claims=["a"], nodeName="node-0"))
        await c.client.patch(Pod, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
        await hold(c, "a", [CLAIM_FINALIZER], runs)
        await c.client.patch(ResourceClaim, "a", {"status": {"reservedFor": None}}, "default", subresource="status")
        await found(c, "pod p runs, but lost claim a")
