"""Figures about objects: names and labels of kube-state-metrics, and how many devices are free."""

from __future__ import annotations

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry

from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.client import SharedInformers
from dray.client.metrics import OBJECT_FIGURES
from dray.scheduler.object_metrics import ObjectMetrics
from tests.e2e.cluster import NODES, SCHEDULER, cluster
from tests.e2e.objects import claim, pod
from tests.waiting import within


def registered(metrics: ObjectMetrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry


async def test_pods_claims_and_devices_are_told_by_the_names_of_kube_state_metrics() -> None:
    async with cluster(nodes=1, devices=3, parts=(NODES, SCHEDULER)) as c:
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await c.runs("p")
        bound, held = await c.pod("p"), await c.claim("c")
        informers = SharedInformers(c.client)
        for kind in (Pod, ResourceClaim, ResourceSlice, DeviceClass):
            informers.informer(kind)
        await informers.start()
        await within(informers.synced())
        found = registered(ObjectMetrics.of(informers))
        await informers.stop()
    use = {
        "claim_name": bound.spec.resourceClaims[0].name,
        "resourceclaim_name": "c",
        "resourceclaim_template_name": "",
    }
    labels = {"namespace": "default", "pod": "p", "uid": bound.metadata.uid}
    assert found.get_sample_value("kube_pod_resourceclaim_info", labels | use) == 1
    name = {"namespace": "default", "resourceclaim": "c"}
    assert found.get_sample_value("kube_resourceclaim_status_allocated", name) == 1
    consumer = {"consumer_apigroup": "", "consumer_resource": "pods", "consumer_name": "p"}
    consumer["consumer_uid"] = bound.metadata.uid
    assert found.get_sample_value("kube_resourceclaim_status_reserved_for", name | consumer) == 1
    assert held.status.allocation is not None
    [one] = held.status.allocation.devices.results
    device = {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device}
    assert found.get_sample_value("kube_resourceclaim_allocation_device_info", name | device) == 1
    [sample] = [s for m in found.collect() for s in m.samples if s.name == "kube_resourceslice_devices_total"]
    assert (sample.labels["node_name"], sample.value) == ("node-0", 3)
    assert devices(found, one.driver) == {"free": 2, "reserved": 1}


async def test_a_scheduler_that_does_not_lead_any_more_tells_no_old_figures() -> None:
    async with cluster(nodes=1, parts=(NODES, SCHEDULER)) as c:
        await c.create(Pod, pod("p"))
        await c.runs("p")
        assert OBJECT_FIGURES.look is not None
        assert REGISTRY.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 0
        await c.stop(SCHEDULER)
        assert OBJECT_FIGURES.look is None
        assert REGISTRY.get_sample_value("scheduler_pending_pods", {"queue": "active"}) is None


def devices(found: CollectorRegistry, driver: str) -> dict[str, float]:
    samples = [s for metric in found.collect() if metric.name == "dray_devices" for s in metric.samples]
    return {s.labels["state"]: s.value for s in samples if s.labels["driver"] == driver and s.value}


def allocated(name: str, device: str) -> ResourceClaim:
    result = {"request": "r", "driver": "d.io", "pool": "p", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)


def test_devices_that_are_tainted_or_no_longer_published_are_not_free() -> None:
    tainted = {"name": "t", "taints": [{"key": "k", "effect": "NoSchedule"}]}
    spec: dict[str, object] = {"driver": "d.io", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
    spec["devices"] = [{"name": "a"}, {"name": "b"}, tainted]
    piece = msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)
    metrics = ObjectMetrics(claims=[allocated("c", "a"), allocated("g", "gone")], slices=[piece])
    assert devices(registered(metrics), "d.io") == {"free": 1, "idle": 1, "tainted": 1, "unpublished": 1}
