"""A taint that comes after another one: what was decided about a claim before does not count any more."""

from __future__ import annotations

from dray.api.types.resource import ResourceSlice
from tests.workloads.cluster import DRIVER, Cluster
from tests.workloads.test_taints import BROKEN, remains


async def test_a_second_taint_of_a_slice_evicts_too(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await cluster.claim(name)
        await cluster.pod(f"pod-{name}", x=name)
        await cluster.running(f"pod-{name}")
    await cluster.publish(4, {"d0": [BROKEN]})
    await remains(cluster, "pod-b", "pod-c")
    await cluster.publish(4, {"d0": [BROKEN], "d1": [BROKEN]})
    await remains(cluster, "pod-c")


async def test_a_taint_of_an_older_generation_does_not_count(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.claim(name)
        await cluster.pod(f"pod-{name}", x=name)
        await cluster.running(f"pod-{name}")
    await cluster.publish(4)
    spec = {
        "driver": DRIVER,
        "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": "d0", "taints": [BROKEN]}],
    }
    await cluster.client.create(ResourceSlice, {"metadata": {"name": "older"}, "spec": spec})
    await cluster.publish(4, {"d1": [BROKEN]})
    await remains(cluster, "pod-a")
