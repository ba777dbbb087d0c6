"""A cluster in which nothing happens writes nothing but leases and node status."""

from __future__ import annotations

import asyncio

from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import claim, pod, request, template

ALLOWED = ("leases.coordination.k8s.io/", "nodes/")


async def test_a_quiet_cluster_writes_only_leases_and_node_status() -> None:
    """Pods run, others wait for devices, for a claim or on a node that refuses them; then nothing more happens."""
    async with cluster(devices=2) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(ResourceClaim, claim("many", request(count=9)))
        await c.create(Pod, *(pod(f"p{i}", templates=["t"]) for i in range(6)))
        await c.runs(*(f"p{i}" for i in range(6)))
        await c.create(Pod, pod("no-devices", claims=["many"]), pod("no-claim", claims=["never"]))
        await c.create(Pod, pod("placed", claims=["many"], nodeName="node-0"))
        for name in ("no-devices", "no-claim"):
            await c.waits(name)

        async def settled() -> bool:
            return not await written(c, 1.5)

        await c.eventually(settled)
        assert await written(c, 3.0) == []


async def written(c: Cluster, seconds: float) -> list[str]:
    """Keys that change within some seconds, but for those that may."""
    cache = c.running.api.storage.cache
    keys: list[str] = []
    subscription = cache.subscribe(
        "", cache.revision, lambda events: keys.extend(event.version.key for event in events), lambda reason: None
    )
    await asyncio.sleep(seconds)
    subscription.close()
    return [key for key in keys if not key.startswith(ALLOWED)]
