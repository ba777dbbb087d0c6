"""Availability of devices: the definition of "free" for all components that show or count devices.

A device is free when no claim holds any part of it, and a claim that requests only this device and tolerates no
taints can have it allocated. Pool status, `dray top`, "what fits" and the dashboard all use `PoolUse`. Free
partitions can exclude each other, so `together` counts how many can be allocated at the same time. Which nodes
can reach a device, and which device an allocation takes, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property

import msgspec

from dray.api.allocations import DeviceId, Share, consumed, taken_by_claim
from dray.api.claim_lifecycle import IDLE, state_of
from dray.api.pools import CountersLeft, PoolName, by_pool, newest, problem_of
from dray.api.quantity import ZERO, Quantity
from dray.api.reasons.devices import PoolProblem
from dray.api.taints import selects, with_rules
from dray.api.types.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice

KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})  # taints with any other effect, None included, are informational


class DeviceState(IntEnum):
    """Availability of a device for a new claim."""

    FREE = 0
    RESERVED = 1  # allocated to a claim with a consumer
    IDLE = 2  # allocated only to claims without consumers
    SHARED = 3  # partly allocated; the rest is available
    EXCLUDED = 4  # not allocated, but other devices have used up the counters that it needs
    TAINTED = 5
    UNHEALTHY = 6
    INCOMPLETE = 7  # slices of its pool are missing or inconsistent
    UNPUBLISHED = 8  # allocated, but in no slice
    UNKNOWN = 9  # not allocated to any visible claim, but not all claims are visible


HELD = frozenset({DeviceState.RESERVED, DeviceState.IDLE, DeviceState.SHARED})


class PublishedDevice(msgspec.Struct, frozen=True, gc=False):
    """A device and the slice that publishes it."""

    device: Device
    slice: ResourceSlice

    @property
    def node(self) -> str:
        """The name of the node of the device; empty if several nodes can reach it."""
        return self.slice.spec.nodeName or self.device.nodeName or ""

    @property
    def is_tainted(self) -> bool:
        """Whether the device has a taint that keeps claims without a toleration away."""
        return any(taint.effect in KEEPS_OUT for taint in self.device.taints)


class PublishedPool(msgspec.Struct, frozen=True):
    """A pool as published in its newest slices, including the taints of DeviceTaintRules."""

    name: PoolName
    slices: tuple[ResourceSlice, ...] = ()
    devices: dict[str, PublishedDevice] = {}
    problem: PoolProblem | None = None  # why the pool cannot be used; None if it can

    @classmethod
    def of(cls, name: PoolName, slices: Iterable[ResourceSlice], rules: Collection[DeviceTaintRule] = ()) -> PublishedPool:  # fmt: skip
        """Return the pool that these slices form. Slices of older generations are ignored."""
        current = newest(sorted(slices, key=lambda one: one.metadata.name))
        tainted = tuple(with_rules(one, rules) for one in current)
        devices = {device.name: PublishedDevice(device, one) for one in tainted for device in one.spec.devices}
        return cls(name, tainted, devices, problem_of(tainted) if tainted else None)

    @property
    def node(self) -> str:
        """The name of the node of all slices of the pool; empty if they do not have a common node."""
        nodes = {one.spec.nodeName or "" for one in self.slices}
        return nodes.pop() if len(nodes) == 1 else ""

    @property
    def has_counters(self) -> bool:
        return any(one.spec.sharedCounters for one in self.slices)


class ClusterPools:
    """All pools of a cluster, updated with slices and taint rules. A pool is computed when it is first requested."""

    def __init__(self, slices: Iterable[ResourceSlice] = (), rules: Iterable[DeviceTaintRule] = ()) -> None:
        self._slices: dict[PoolName, tuple[ResourceSlice, ...]] = {n: tuple(of) for n, of in by_pool(slices).items()}
        self._rules = {rule.metadata.name: rule for rule in rules}
        self._read: dict[PoolName, PublishedPool] = {}

    def __iter__(self) -> Iterator[PoolName]:
        return iter(sorted(self._slices))

    def __getitem__(self, name: PoolName) -> PublishedPool:
        """Return a pool; an empty pool if it has no slices."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = PublishedPool.of(name, self._slices.get(name, ()), self._rules.values())
        return found

    def slices_of(self, name: PoolName) -> Iterator[ResourceSlice]:
        """Return an iterator over the slices of a pool, of all generations, with the taints of rules.

        The iterator is empty if the pool is unknown.
        """
        return (self.tainted(one) for one in self._slices.get(name, ()))

    def tainted(self, piece: ResourceSlice) -> ResourceSlice:
        """Return a slice with the taints of rules added to its devices."""
        return with_rules(piece, self._rules.values())

    def rules_for(self, device: DeviceId) -> list[DeviceTaintRule]:
        """Return the rules that taint a device."""
        return [rule for rule in self._rules.values() if selects(rule, *device)]

    def change_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> list[PoolName]:
        """Record that a slice was added, changed or deleted. Returns the affected pools.

        `old` is None for a new slice, `new` for a deleted one.
        """
        changed: dict[PoolName, None] = {}
        for one in filter(None, (old, new)):
            pool = PoolName(one.spec.driver, one.spec.pool.name)
            kept = tuple(other for other in self._slices.get(pool, ()) if other.metadata.name != one.metadata.name)
            if one is new:
                kept = (*kept, one)
            if kept:
                self._slices[pool] = kept
            else:
                self._slices.pop(pool, None)
            self._read.pop(pool, None)
            changed[pool] = None
        return [*changed]

    def change_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> list[PoolName]:
        """Record that a rule was added, changed or deleted. Returns the pools whose devices it selects or selected.

        `old` is None for a new rule, `new` for a deleted one.
        """
        rules = [*filter(None, (old, new))]
        if new is not None:
            self._rules[new.metadata.name] = new
        elif old is not None:
            self._rules.pop(old.metadata.name, None)
        changed = [pool for pool in self._slices if any(selects(rule, *pool) for rule in rules)]
        for pool in changed:
            self._read.pop(pool, None)
        return changed


class DeviceHolders:
    """Index of the claims that hold each device, completely or in part."""

    def __init__(self, claims: Iterable[ResourceClaim] = ()) -> None:
        self._claims: dict[DeviceId, dict[tuple[str, str], ResourceClaim]] = {}
        for claim in claims:
            self.change(None, claim)

    def __contains__(self, device: DeviceId) -> bool:
        return device in self._claims

    def __iter__(self) -> Iterator[DeviceId]:
        return iter(self._claims)

    def claims(self, device: DeviceId) -> Sequence[ResourceClaim]:
        """Return the claims that hold a device, completely or in part; empty if the device is not in use."""
        held = self._claims.get(device)
        return tuple(held.values()) if held else ()

    def change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Iterable[DeviceId]:
        """Record that a claim was added, changed or deleted. Returns the devices that it held before or holds now.

        `old` is None for a new claim, `new` for a deleted one.
        """
        before, after = taken_by_claim(old).touched, taken_by_claim(new).touched
        for device in before:
            assert old is not None
            held = self._claims.get(device, {})
            held.pop((old.metadata.namespace, old.metadata.name), None)
            if not held:
                self._claims.pop(device, None)
        for device in after:
            assert new is not None
            self._claims.setdefault(device, {})[new.metadata.namespace, new.metadata.name] = new
        return dict.fromkeys((*before, *after))


class PoolUse:
    """One pool and the claims that hold its devices. `sick` contains the devices reported as unhealthy."""

    def __init__(self, pool: PublishedPool, holders: DeviceHolders, sick: Collection[DeviceId] = ()) -> None:
        self.pool = pool
        self.holders = holders
        self._sick = sick

    @cached_property
    def held(self) -> frozenset[str]:
        """Names of the published devices that claims hold, completely or in part."""
        return frozenset(name for name in self.pool.devices if DeviceId(*self.pool.name, name) in self.holders)

    @cached_property
    def left(self) -> CountersLeft:
        """The remaining amounts of the pool's counters."""
        return CountersLeft.of(self.pool.slices, self.held)

    @cached_property
    def total(self) -> CountersLeft:
        """The amounts of the pool's counters while no device is in use."""
        return CountersLeft.of(self.pool.slices, ())

    def state(self, name: str) -> DeviceState:
        """Return the availability of a device of the pool for a new claim.

        If several states apply, the first of UNPUBLISHED, UNHEALTHY, those of a held device, INCOMPLETE, TAINTED and
        EXCLUDED is returned.
        """
        id_ = DeviceId(*self.pool.name, name)
        found = self.pool.devices.get(name)
        if found is None:
            return DeviceState.UNPUBLISHED
        if id_ in self._sick:
            return DeviceState.UNHEALTHY
        if claims := self.holders.claims(id_):
            if self.used_part(name) not in (None, 1.0):
                return DeviceState.SHARED
            return DeviceState.IDLE if all(state_of(claim) in IDLE for claim in claims) else DeviceState.RESERVED
        if self.pool.problem is not None:
            return DeviceState.INCOMPLETE
        if found.is_tainted:
            return DeviceState.TAINTED
        if found.device.consumesCounters and not self.left.fits(found.device):
            return DeviceState.EXCLUDED
        return DeviceState.FREE

    def shares(self, name: str) -> list[tuple[ResourceClaim, Share]]:
        """Return the shares of a device that claims hold, each with its claim."""
        id_ = DeviceId(*self.pool.name, name)
        claims = self.holders.claims(id_)
        return [(claim, share) for claim in claims for share in taken_by_claim(claim).shares if share.device == id_]

    def consumed(self, name: str) -> dict[str, Quantity]:
        """Return the capacity of a device that its shares consume, by capacity name.

        The dict is empty if no claim has a share of the device.
        """
        id_ = DeviceId(*self.pool.name, name)
        return consumed(share for _, share in self.shares(name)).get(id_, {})

    def used_part(self, name: str) -> float | None:
        """Return the consumed fraction of a device (0 to 1); None if it is unused or a claim holds all of it.

        The largest fraction of a capacity counts. Returns 0 if shares consume no capacity.
        """
        id_ = DeviceId(*self.pool.name, name)
        claims = self.holders.claims(id_)
        if not claims or any(id_ in taken_by_claim(claim).devices for claim in claims):
            return None
        capacity, amounts = self.pool.devices[name].device.capacity, self.consumed(name)
        parts = (
            min(1.0, amounts[of].approximate() / whole)
            for of in amounts.keys() & capacity.keys()
            if (whole := Quantity.parse(capacity[of].value).approximate())
        )
        return max(parts, default=0.0)

    def together(self, names: Iterable[str]) -> list[str]:
        """Return those of the given devices that can all be in use at the same time, including those in use already.

        Partitions that exclude each other are chosen from the smallest to the largest. The selection is always
        possible, but not always the largest.
        """
        left = CountersLeft.of(self.pool.slices, self.held)
        found = []
        for name in sorted(names, key=lambda name: drawn_by(self.pool.devices[name].device)):
            device = self.pool.devices[name].device
            # A device in use already consumes its counters.
            if name in self.held or not device.consumesCounters or left.draw(device):
                found.append(name)
        return found


def drawn_by(device: Device) -> Quantity:
    """Return the sum of all counter amounts that a device consumes, over all counters; zero if it consumes none."""
    drawn = (counter.value for one in device.consumesCounters for counter in one.counters.values())
    return sum(map(Quantity.parse, drawn), ZERO)
