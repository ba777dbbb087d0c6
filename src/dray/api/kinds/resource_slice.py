"""ResourceSlice: some of the devices of a pool, published by their driver."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from dray.api.columns import AGE, NAME, text
from dray.api.conversion import WorkloadLookup
from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, NOW, KindRules, Resource
from dray.api.quoting import quote
from dray.api.types import resource
from dray.api.wire import Tree, Wire


def _warnings(slice_: resource.ResourceSlice, old: resource.ResourceSlice | None) -> Iterator[str]:
    driver = slice_.spec.driver
    if driver != driver.lower():
        yield f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    spec = tree.get("spec", {})
    for name in ("nodeName", "allNodes"):
        if not spec.get(name, True):
            del spec[name]  # v1beta1 has no pointers, so the zero value means unset
    for device in spec.get("devices") or ():
        device.update(device.pop("basic", None) or {})


def _from_stored(tree: Tree) -> None:
    for device in tree.get("spec", {}).get("devices") or ():
        name = device.pop("name", "")
        basic = dict(device)
        device.clear()
        device.update(name=name, basic=basic)


KIND = Resource(
    resource.ResourceSlice,
    versions=DRA_VERSIONS,
    namespaced=False,
    gate="DynamicResourceAllocation",
    columns=(NAME, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), AGE),
    generation=("spec",),
    deprecated=DRA_DEPRECATED,
    rules=KindRules("slices.create", "slices.update"),
    error_names={
        "v1beta1": (
            (
                r"(\bdevices\[\d+\])(\.attributes\[[^]]*\]|\.consumesCounters(\[\d+\](\.\w+)?)?|\.taints\[\d+\]\.effect)$",
                r"\1.basic\2",
            ),
        )
    },
    defaults={
        "spec.devices[].taints[].timeAdded": NOW,
        "spec.devices[].capacity{}.value": "0",
        "spec.devices[].consumesCounters[].counters{}.value": "0",
        "spec.sharedCounters[].counters{}.value": "0",
    },
    guards={
        "DRADeviceTaints": ("spec.devices[].taints",),
        "DRAPartitionableDevices": (
            "spec.sharedCounters|perDeviceNodeSelection",
            "spec.devices[].consumesCounters|nodeName|nodeSelector|allNodes",
        ),
        "DRAConsumableCapacity": ("spec.devices[].allowMultipleAllocations", "spec.devices[].capacity{}.requestPolicy"),
        "DRADeviceBindingConditions": ("spec.devices[].bindingConditions|bindingFailureConditions|bindsToNode",),
        "DRAOptionalNodeOperations": ("spec.skipNodeOperations",),
        "DRAListTypeAttributes": ("spec.devices[].attributes{}.bools|ints|strings|versions",),
        "DRANodeAllocatableResources": ("spec.devices[].nodeAllocatableResources",),
        "DRADeviceCompatibilityGroups": ("spec.devices[].consumesCounters[].compatibilityGroups",),
        "DRAPartitionableDevicesType": ("spec.partitionTypeAttribute",),
    },
    warnings=_warnings,
    to_stored={"v1beta1": _to_stored},
    from_stored={"v1beta1": _from_stored},
    selectable={
        "spec.nodeName": lambda slice_: slice_.spec.nodeName or "",
        "spec.driver": attrgetter("spec.driver"),
        "spec.pool.name": attrgetter("spec.pool.name"),
    },
    not_selectable="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}",
    is_returned_when_deleted=True,
)
