"""Published device pools, followed in the cache: which devices exist, with their capacity and counters.

A device exists if its pool is published for a node of the cluster, or for any node if the cluster has nodes. The
newest generation of the pool counts. Which claim has which device is in `holds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dray.api.allocations import DeviceId
from dray.api.pools import newest
from dray.api.quantity import Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.core import Node
from dray.api.types.resource import Device, ResourceSlice
from dray.store import Cache, Closed, StoreEvent

_NODES = BY_TYPE[Node]
_SLICES = BY_TYPE[ResourceSlice]

_NO_DEVICE = Device()

_Devices = dict[str, Device]
_Counters = dict[str, dict[str, Quantity]]
_Drawing = dict[str, list[str]]  # names of devices by the counter set that they consume


class _PublishedPool:
    """Slices of a pool by name, and the devices and counters derived from them on demand."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.nodes: Counter[str] = Counter()  # number of slices by node
        self._found: tuple[_Devices, _Counters, _Drawing] | None = None

    def put(self, slice_: ResourceSlice, *, gone: bool) -> None:
        """Add or replace a slice, or remove it if `gone`."""
        node = slice_.spec.nodeName or ""
        self._found = None
        self.nodes[node] += -1 if gone else 1
        if not self.nodes[node]:
            del self.nodes[node]
        if gone:
            self.slices.pop(slice_.metadata.name, None)
        else:
            self.slices[slice_.metadata.name] = slice_

    @property
    def devices(self) -> _Devices:
        return self._current()[0]

    @property
    def counters(self) -> _Counters:
        return self._current()[1]

    @property
    def drawing(self) -> _Drawing:
        return self._current()[2]

    def _current(self) -> tuple[_Devices, _Counters, _Drawing]:
        """Return devices, counters and consumers of counters in the newest generation of the pool.

        They are, by name: devices; counters with their amounts of each counter set; names of the devices that consume
        from each counter set.
        """
        if self._found is None:
            current = newest(self.slices.values())
            devices = {device.name: device for one in current for device in one.spec.devices}
            drawing: _Drawing = {}
            for device in devices.values():
                for drawn in device.consumesCounters:
                    drawing.setdefault(drawn.counterSet, []).append(device.name)
            self._found = (
                devices,
                {
                    set_.name: {name: Quantity.parse(counter.value) for name, counter in set_.counters.items()}
                    for one in current
                    for set_ in one.spec.sharedCounters
                },
                drawing,
            )
        return self._found


class PublishedPools:
    """All device pools that ResourceSlices in the cache publish."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._pools: dict[tuple[str, str], _PublishedPool] = {}
        self._follow()

    def is_real(self, device: DeviceId) -> bool:
        """Return whether the pool of a device is published for a node of the cluster."""
        pool = self._pools.get(device[:2])
        return any(map(self.has_node, pool.nodes)) if pool is not None else False

    def has_node(self, name: str) -> bool:
        """Return whether the cluster has the named node, or any node if the name is empty."""
        return self._cache.get(_NODES.key("", name)) is not None if name else bool(self._cache.count(_NODES.prefix))

    def device(self, id_: DeviceId) -> Device:
        """Return a device as published, or an empty Device if it is not published."""
        pool = self._pools.get(id_[:2])
        return _NO_DEVICE if pool is None else pool.devices.get(id_.device, _NO_DEVICE)

    def counters(self, device: DeviceId, counter_set: str) -> dict[str, Quantity]:
        """Return the counters of a counter set in the device's pool; empty if the pool or the set is not known."""
        pool = self._pools.get(device[:2])
        return {} if pool is None else pool.counters.get(counter_set, {})

    def drawing(self, device: DeviceId, counter_set: str) -> Sequence[str]:
        """Return the names of the devices in the same pool that consume a counter set."""
        pool = self._pools.get(device[:2])
        return () if pool is None else pool.drawing.get(counter_set, ())

    def _follow(self) -> None:
        """Read all slices from the cache and subscribe to their changes."""
        self._pools.clear()
        for version in self._cache.list(_SLICES.prefix).versions:
            self._put(version.object, gone=False)
        self._cache.subscribe(_SLICES.prefix, self._cache.revision, self._note, self._start_over)

    def _start_over(self, reason: Exception) -> None:
        """Read all slices again after the subscription ended, unless the cache is closed."""
        if not isinstance(reason, Closed):
            self._follow()

    def _note(self, events: Sequence[StoreEvent]) -> None:
        """Apply changed slices from the cache."""
        for event in events:
            if event.previous is not None and event.previous.value is not None:
                self._put(event.previous.object, gone=True)
            if event.version.value is not None:
                self._put(event.version.object, gone=False)

    def _put(self, slice_: ResourceSlice, *, gone: bool) -> None:
        """Add a slice to its pool, or remove the slice if `gone`."""
        key = (slice_.spec.driver, slice_.spec.pool.name)
        pool = self._pools.setdefault(key, _PublishedPool())
        pool.put(slice_, gone=gone)
        if not pool.nodes:
            del self._pools[key]
