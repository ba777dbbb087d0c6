"""Which claim holds which device, kept in the same commit as the claim: a device never goes to two claims.

Two schedulers that decide at the same moment write two different claims, and no version of either says that the other
took the device. So every device that an allocation names and that some node can reach gets a key of its own, which must
not exist before; the second writer gets a conflict and tries again. It holds across servers that share an etcd. Left out:
devices that more than one claim may have (admin access, shares), and devices that no driver publishes for a node of the
cluster: those are only names, which Kubernetes lets anybody write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

from dray.api.resources import BY_TYPE
from dray.api.types.core import Node
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.store import Cache, Closed, Event, Op

PREFIX = "deviceholds/"
CLAIMS = BY_TYPE[ResourceClaim]
_NODES = BY_TYPE[Node]
_SLICES = BY_TYPE[ResourceSlice]

Device = tuple[str, str, str]


class DeviceHolds:
    """What must be written along with a claim."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._published: dict[tuple[str, str], Counter[str]] = {}  # slices of each driver's pools, by their node
        self._follow()

    def ops(self, old: ResourceClaim | None, new: ResourceClaim | None) -> list[Op]:
        """The keys to take and to give back when a claim goes from one state to another."""
        before = _devices(old)
        after = _devices(new)
        if before == after:
            return []
        claim = new or old
        assert claim is not None
        return [*self._takes(after - before, claim.metadata.uid), *self._gives(before - after, claim.metadata.uid)]

    def _takes(self, devices: set[Device], uid: str) -> list[Op]:
        return [
            Op(_key(device), uid.encode(), 0)
            for device in sorted(devices)
            if self._is_real(device) and not self._holds(device, uid)
        ]

    def _is_real(self, device: Device) -> bool:
        """Whether the device's pool is published for a node that exists, or for any node of a cluster that has some."""
        for node in self._published.get(device[:2], ()):
            if self._cache.get(_NODES.key("", node)) is not None if node else self._cache.count(_NODES.prefix):
                return True
        return False

    def _gives(self, devices: set[Device], uid: str) -> list[Op]:
        return [Op(_key(device), None, None) for device in sorted(devices) if self._holds(device, uid)]

    def _holds(self, device: Device, uid: str) -> bool:
        held = self._cache.get(_key(device))
        return held is not None and held.value == uid.encode()

    def _follow(self) -> None:
        self._published.clear()
        for version in self._cache.list(_SLICES.prefix).versions:
            self._count(cast(ResourceSlice, version.object), 1)
        self._cache.subscribe(_SLICES.prefix, self._cache.revision, self._note, self._start_over)

    def _start_over(self, reason: Exception) -> None:
        """The cache has started anew: count again what it has."""
        if not isinstance(reason, Closed):
            self._follow()

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.previous is not None and event.previous.value is not None:
                self._count(cast(ResourceSlice, event.previous.object), -1)
            if event.version.value is not None:
                self._count(cast(ResourceSlice, event.version.object), 1)

    def _count(self, slice_: ResourceSlice, sign: int) -> None:
        pool, node = (slice_.spec.driver, slice_.spec.pool.name), slice_.spec.nodeName or ""
        nodes = self._published.setdefault(pool, Counter())
        nodes[node] += sign
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._published[pool]


def held_device(key: str) -> str:
    """The device that a key is about, for people."""
    return key.removeprefix(PREFIX)


def _key(device: Device) -> str:
    return PREFIX + "/".join(device)


def _devices(claim: ResourceClaim | None) -> set[Device]:
    """The devices that a claim has for itself."""
    if claim is None or claim.status.allocation is None:
        return set()
    results = claim.status.allocation.devices.results
    return {(r.driver, r.pool, r.device) for r in results if not r.adminAccess and r.shareID is None}
