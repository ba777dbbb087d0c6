"""Metrics about claims, slices, classes and devices, served at `/metrics/resources` of a scheduler.

Names and labels starting with `kube_` follow kube-state-metrics: `kube_pod_resourceclaim_info` as released, the
others as proposed there. `dray_devices` reports the number of devices by state. There may be hundreds of thousands of
series, so objects are copied on the event loop, and `collect` may run in another thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dray.api.availability import ClusterPools, DeviceHolders, DeviceState, PoolUse
from dray.api.device_health import unhealthy_in_claim
from dray.api.podclaims import uses_of
from dray.api.pools import PoolName
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.client import SharedInformers

_SLICE = ("resourceslice", "driver", "pool_name", "node_name")
_CLAIM = ("resourceclaim", "namespace")


@dataclass(frozen=True, eq=False)
class ObjectMetrics(Collector):
    """Prometheus collector of metrics about given objects."""

    pods: Sequence[Pod] = ()
    claims: Sequence[ResourceClaim] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    rules: Sequence[DeviceTaintRule] = ()

    @classmethod
    def of(cls, informers: SharedInformers) -> ObjectMetrics:
        """Create a collector with copies of the objects that the informers currently have."""
        kinds = (Pod, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
        return cls(*(informers.followed(kind) for kind in kinds))  # type: ignore[arg-type]

    def collect(self) -> Iterator[Metric]:
        yield from (self._pods(), *self._claims(), *self._slices(), *self._classes(), self._devices())

    def _pods(self) -> Metric:
        labels = ("namespace", "pod", "uid", "claim_name", "resourceclaim_name", "resourceclaim_template_name")
        family = _family("kube_pod_resourceclaim_info", "Claims of pods.", labels)
        for pod in self.pods:
            meta = pod.metadata
            templates = {entry.name: entry.resourceClaimTemplateName for entry in pod.spec.resourceClaims}
            for use in uses_of(pod):
                names = use.entry, use.claim or "", templates.get(use.entry) or ""
                family.add_metric([meta.namespace, meta.name, meta.uid, *names], 1)
        return family

    def _claims(self) -> Iterator[Metric]:
        info = _family("kube_resourceclaim_info", "Claims.", _CLAIM)
        created = _family("kube_resourceclaim_created", "When a claim was created, in Unix time.", _CLAIM)
        allocated = _family("kube_resourceclaim_status_allocated", "Whether a claim is allocated.", _CLAIM)
        labels = (*_CLAIM, "consumer_apigroup", "consumer_resource", "consumer_name", "consumer_uid")
        reserved = _family("kube_resourceclaim_status_reserved_for", "For whom claims are reserved.", labels)
        labels = (*_CLAIM, "request", "driver", "pool", "device")
        devices = _family("kube_resourceclaim_allocation_device_info", "Devices of claims.", labels)
        for claim in self.claims:
            name, allocation = [claim.metadata.name, claim.metadata.namespace], claim.status.allocation
            info.add_metric(name, 1)
            created.add_metric(name, _created(claim.metadata))
            allocated.add_metric(name, allocation is not None)
            for one in claim.status.reservedFor:
                reserved.add_metric([*name, one.apiGroup or "", one.resource, one.name, one.uid], 1)
            for result in allocation.devices.results if allocation is not None else ():
                devices.add_metric([*name, result.request, result.driver, result.pool, result.device], 1)
        yield from (info, created, allocated, reserved, devices)

    def _slices(self) -> Iterator[Metric]:
        info = _family("kube_resourceslice_info", "Slices.", (*_SLICE, "all_nodes"))
        created = _family("kube_resourceslice_created", "When a slice was created, in Unix time.", _SLICE[:1])
        total = _family("kube_resourceslice_devices_total", "Devices in a slice.", _SLICE)
        devices = _family("kube_resourceslice_device_info", "Devices of slices.", (*_SLICE, "device_name"))
        for piece in self.slices:
            spec, name = piece.spec, piece.metadata.name
            labels = [name, spec.driver, spec.pool.name, spec.nodeName or ""]
            info.add_metric([*labels, str(bool(spec.allNodes)).lower()], 1)
            created.add_metric([name], _created(piece.metadata))
            total.add_metric(labels, len(spec.devices))
            for device in spec.devices:
                devices.add_metric([*labels, device.name], 1)
        yield from (info, created, total, devices)

    def _classes(self) -> Iterator[Metric]:
        info = _family("kube_deviceclass_info", "Device classes.", ("deviceclass", "extended_resource_name"))
        created = _family("kube_deviceclass_created", "When a class was created, in Unix time.", ("deviceclass",))
        for one in self.classes:
            info.add_metric([one.metadata.name, one.spec.extendedResourceName or ""], 1)
            created.add_metric([one.metadata.name], _created(one.metadata))
        yield from (info, created)

    def _devices(self) -> Metric:
        family = _family("dray_devices", "Devices by driver and by whether they can be had.", ("driver", "state"))
        pools, holders = ClusterPools(self.slices, self.rules), DeviceHolders(self.claims)
        sick = {device for claim in self.claims for device in unhealthy_in_claim(claim)}
        counts: Counter[tuple[str, DeviceState]] = Counter()
        drivers: dict[str, None] = {}
        for name in pools:
            use = PoolUse(pools[name], holders, sick)
            drivers[name.driver] = None
            counts.update((name.driver, use.state(device)) for device in use.pool.devices)
        for device in holders:
            if device.device not in pools[PoolName(device.driver, device.pool)].devices:
                drivers[device.driver] = None
                counts[device.driver, DeviceState.UNPUBLISHED] += 1
        for driver in drivers:
            for state in DeviceState:
                if state is not DeviceState.UNKNOWN:  # all claims are known here, so no state is unknown
                    family.add_metric([driver, state.name.lower()], counts[driver, state])
        return family


def _family(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _created(meta: ObjectMeta) -> float:
    """Return the creation time as Unix time, 0 if unset."""
    return parse_timestamp(meta.creationTimestamp) if meta.creationTimestamp else 0.0
