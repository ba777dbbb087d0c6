"""Each gate of a device's feature on, off and on again, with stored objects and running pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import claim, device_class, pod, request, slice_of

DRIVER = "x.example.com"
ROOT = f"{DRIVER}/root"


@dataclass(frozen=True)
class Feature:
    """A gate, the field that it guards, and where objects have it."""

    gate: str
    guarded: str
    slice: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    constraints: tuple[dict[str, Any], ...] = ()
    counters: bool = False


_DRAWN = {"counterSet": "gpu", "counters": {"mem": {"value": "1"}}}
_POLICY = {"default": "1", "validValues": ["1", "2"]}
FEATURES = (
    Feature("DRAPartitionableDevices", "consumesCounters", device={"consumesCounters": [_DRAWN]}, counters=True),
    Feature(
        "DRAConsumableCapacity",
        "requestPolicy",
        device={"allowMultipleAllocations": True, "capacity": {"bw": {"value": "4", "requestPolicy": _POLICY}}},
        request={"capacity": {"requests": {"bw": "2"}}},
    ),
    Feature(
        "DRAListTypeAttributes",
        "strings",
        device={"attributes": {"root": {"strings": ["a", "b"]}}},
        constraints=({"matchAttribute": ROOT},),
    ),
    Feature(
        "DRADerivedAttributes",
        "derivedAttributes",
        request={"derivedAttributes": [{"name": ROOT, "expression": "device.driver"}]},
        constraints=({"matchAttribute": ROOT},),
    ),
    Feature(
        "DRADeviceCompatibilityGroups",
        "compatibilityGroups",
        device={"consumesCounters": [{**_DRAWN, "compatibilityGroups": ["mig"]}]},
        counters=True,
    ),
    Feature(
        "DRANodeAllocatableResources",
        "nodeAllocatableResources",
        device={"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}},
    ),
    Feature("DRAOptionalNodeOperations", "skipNodeOperations", slice={"skipNodeOperations": ["*"]}),
)


async def publish(c: Cluster, feature: Feature, pool: str) -> None:
    """Two devices and a claim for both; a list alone is no attribute for a server that knows no lists."""
    device = dict(feature.device)
    if pool == "new" and "attributes" in device:
        device["attributes"] = {"root": {**device["attributes"]["root"], "string": "a"}}
    devices = [{"name": f"{pool}-{at}", **device} for at in range(2)]
    count = 2 if feature.counters else 1
    if feature.counters:
        own = slice_of(f"{pool}-counters", "node-0", driver=DRIVER, pool=pool, count=count)
        own["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"mem": {"value": "2"}}}]
        del own["spec"]["devices"]
        await c.create(ResourceSlice, own)
    tree = slice_of(pool, "node-0", *devices, driver=DRIVER, pool=pool, count=count)
    tree["spec"] |= feature.slice
    await c.create(ResourceSlice, tree)
    wanted = request(class_="x", count=2, **feature.request)
    await c.create(ResourceClaim, claim(pool, wanted, constraints=[*feature.constraints]))


async def has(c: Cluster, feature: Feature, name: str) -> bool:
    """Whether the slice or the claim of a name has the field."""
    slice_, claim_ = await c.client.get(ResourceSlice, name), await c.claim(name)
    return any(
        f'"{feature.guarded}":[' in text or f'"{feature.guarded}":{{' in text
        for text in map(_text, (slice_.spec, claim_.spec))
    )


def _text(spec: Any) -> str:
    return msgspec.json.encode(spec).decode()


async def nothing_held(c: Cluster) -> bool:
    held = c.running.api.storage.cache.list("deviceholds/").versions
    return not c.scheduler.core.state.devices.index.taken and not held


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.gate)
async def test_fields_are_kept_where_they_are_stored_and_devices_given_back(feature: Feature, tmp_path: Path) -> None:
    store, on = f"sqlite:{tmp_path / 'state.db'}", f"{feature.gate}=true"
    async with cluster(nodes=1, devices=1, store=store, gates=on) as c:
        await c.create(DeviceClass, device_class("x", f'device.driver == "{DRIVER}"'))
        await publish(c, feature, "stored")
        await c.create(Pod, pod("p", claims=["stored"]))
        await c.runs("p")
        assert await has(c, feature, "stored")
    async with cluster(nodes=1, devices=1, store=store, gates=f"{feature.gate}=false") as c:
        await publish(c, feature, "new")
        assert not await has(c, feature, "new")
        await c.client.patch(ResourceSlice, "stored", {"metadata": {"labels": {"a": "b"}}})
        assert await has(c, feature, "stored")
        assert (await c.runs("p")).spec.nodeName == "node-0"
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await c.eventually(lambda: nothing_held(c))
    async with cluster(nodes=1, devices=1, store=store, gates=on) as c:
        await c.delete(ResourceSlice, "new")
        assert await has(c, feature, "stored")
        await c.create(Pod, pod("q", claims=["stored"]))
        await c.runs("q")
        allocation = (await c.claim("stored")).status.allocation
        assert allocation is not None
        assert [result.device for result in allocation.devices.results] == ["stored-0", "stored-1"]
        await c.delete(Pod, "q")
        await c.eventually(lambda: nothing_held(c))
