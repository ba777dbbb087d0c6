"""The state of a device, as one number for its colour: what is published of it, against what claims hold.

A pool is read once (`PoolView`), and its devices are judged against who holds them. Left out: keeping track of both
(`inventory`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple

import msgspec

from dray.api.allocations import DeviceId, consumed, taken_by_claim
from dray.api.claim_lifecycle import IDLE, state_of
from dray.api.pools import CountersLeft, PoolName, newest, problem_of
from dray.api.quantity import ZERO, Quantity
from dray.api.reasons.devices import PoolProblem
from dray.api.taints import with_rules
from dray.api.types.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice

_KEEPS_OUT = ("NoSchedule", "NoExecute")


class DeviceState(IntEnum):
    """What a device is to somebody who wants one."""

    FREE = 0
    RESERVED = 1  # allocated, and somebody is listed as consumer
    IDLE = 2  # allocated, and nobody is
    SHARED = 3  # some of it is allocated, and more can be
    EXCLUDED = 4  # free, but other partitions use up the counters that it draws on
    TAINTED = 5
    UNHEALTHY = 6
    INCOMPLETE = 7  # its pool lacks slices or contradicts itself
    UNPUBLISHED = 8  # held, and no slice has it
    UNKNOWN = 9  # nobody is known to hold it, but not all claims are known


HELD = frozenset({DeviceState.RESERVED, DeviceState.IDLE, DeviceState.SHARED})


class DeviceFlag(IntFlag):
    """What is true of a device beside its state."""

    TAINTED = 1
    UNHEALTHY = 2
    SHAREABLE = 4
    PARTITION = 8


class DevicePlace(msgspec.Struct, frozen=True, gc=False):
    """A device, and the slice that publishes it."""

    device: Device
    slice: ResourceSlice


class PartitionPlace(NamedTuple):
    """Where a partition is drawn: in the cell of the device that is the whole, and how much of it the partition is."""

    cell: str
    share: float


class PoolView(msgspec.Struct, frozen=True):
    """A pool as its newest slices publish it, with the taints of rules."""

    name: PoolName
    slices: tuple[ResourceSlice, ...]
    places: dict[str, DevicePlace]
    problem: PoolProblem | None
    cells: dict[str, PartitionPlace]  # where partitions are drawn

    @classmethod
    def of(cls, name: PoolName, slices: Sequence[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> PoolView:
        current = newest(sorted(slices, key=lambda one: one.metadata.name))
        tainted = tuple(with_rules(one, rules) for one in current)
        places = {device.name: DevicePlace(device, one) for one in tainted for device in one.spec.devices}
        problem = problem_of(tainted) if tainted else None
        return cls(name, tainted, places, problem, _cells(places))

    @property
    def node(self) -> str:
        """The node that all of it is on; empty where there is no such node."""
        return (self.slices[0].spec.nodeName or "") if self.slices else ""

    @property
    def has_counters(self) -> bool:
        return any(one.spec.sharedCounters for one in self.slices)


def _cells(places: Mapping[str, DevicePlace]) -> dict[str, PartitionPlace]:
    """Partitions of one thing draw on the same counters; the one that draws most is the whole."""
    whole: dict[str, tuple[Quantity, str]] = {}
    for name, place in places.items():
        for drawn in place.device.consumesCounters:
            amount = ZERO
            for counter in drawn.counters.values():
                amount = amount + Quantity.parse(counter.value)
            if drawn.counterSet not in whole or amount > whole[drawn.counterSet][0]:
                whole[drawn.counterSet] = amount, name
    found: dict[str, PartitionPlace] = {}
    for name, place in places.items():
        if place.device.consumesCounters:
            cell = whole[place.device.consumesCounters[0].counterSet][1]
            found[name] = PartitionPlace(cell, _share(place.device, places[cell].device))
    return found


def _share(device: Device, whole: Device) -> float:
    """How much of the whole a partition draws: the mean of its counters, since they have different units."""
    amounts = {
        (drawn.counterSet, name): Quantity.parse(counter.value).approximate()
        for drawn in device.consumesCounters
        for name, counter in drawn.counters.items()
    }
    parts = [
        min(1.0, amounts.get((drawn.counterSet, name), 0.0) / most)
        for drawn in whole.consumesCounters
        for name, counter in drawn.counters.items()
        if (most := Quantity.parse(counter.value).approximate())
    ]
    return round(sum(parts) / len(parts), 4) if parts else 1.0


Holders = Mapping[DeviceId, Mapping[tuple[str, str], ResourceClaim]]
"""The claims that hold a device or shares of it, by namespace and name."""


class DeviceJudgement(msgspec.Struct, frozen=True):
    """What can be said of a device."""

    state: DeviceState
    flags: int
    used: float | None = None


class PoolJudge:
    """Judges the devices of one pool. `known` says whether all claims are known."""

    def __init__(self, view: PoolView, holders: Holders, known: bool) -> None:
        self._view = view
        self._holders = holders
        self._known = known
        self._left = CountersLeft.of(view.slices, self._in_use()) if view.has_counters else None

    def _in_use(self) -> set[str]:
        return {name for name in self._view.places if DeviceId(*self._view.name, name) in self._holders}

    def judge(self, device: DeviceId, is_sick: bool) -> DeviceJudgement:
        claims = [*self._holders.get(device, {}).values()]
        place = self._view.places.get(device.device)
        if place is None:
            return DeviceJudgement(DeviceState.UNPUBLISHED, int(DeviceFlag.UNHEALTHY) * is_sick)
        flags = _flags(place.device, is_sick)
        if claims:
            state, used = _held(device, place.device, claims)
            return DeviceJudgement(DeviceState.UNHEALTHY if is_sick else state, flags, used)
        return DeviceJudgement(self._unheld(place.device, flags), flags)

    def _unheld(self, device: Device, flags: int) -> DeviceState:
        if flags & DeviceFlag.UNHEALTHY:
            return DeviceState.UNHEALTHY
        if self._view.problem is not None:
            return DeviceState.INCOMPLETE
        if flags & DeviceFlag.TAINTED:
            return DeviceState.TAINTED
        if self._left is not None and device.consumesCounters and not self._left.fits(device):
            return DeviceState.EXCLUDED
        return DeviceState.FREE if self._known else DeviceState.UNKNOWN


def _flags(device: Device, is_sick: bool) -> int:
    flags = DeviceFlag.UNHEALTHY if is_sick else 0
    if device.taints and any(taint.effect in _KEEPS_OUT for taint in device.taints):
        flags |= DeviceFlag.TAINTED
    if device.allowMultipleAllocations:
        flags |= DeviceFlag.SHAREABLE
    if device.consumesCounters:
        flags |= DeviceFlag.PARTITION
    return int(flags)


def _held(id_: DeviceId, device: Device, claims: Sequence[ResourceClaim]) -> tuple[DeviceState, float | None]:
    taken = [taken_by_claim(claim) for claim in claims]
    if not any(id_ in one.devices for one in taken):
        amounts = consumed(share for one in taken for share in one.shares if share.device == id_).get(id_, {})
        parts = [
            min(1.0, amounts[name].approximate() / whole)
            for name, capacity in device.capacity.items()
            if name in amounts and (whole := Quantity.parse(capacity.value).approximate())
        ]
        used = max(parts, default=0.0)
        if used < 1.0:
            return DeviceState.SHARED, round(used, 4)
        return _whole(claims), used
    return _whole(claims), None


def _whole(claims: Sequence[ResourceClaim]) -> DeviceState:
    return DeviceState.IDLE if all(state_of(claim) in IDLE for claim in claims) else DeviceState.RESERVED
