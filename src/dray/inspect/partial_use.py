"""Devices that are in use in part: who has which share, what is left of counters and capacity, and how much still fits.

Pure. Left out: devices that are whole or free (`occupancy`), and drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.allocator.capacity import largest_within
from dray.api.allocations import DeviceId, Share, consumed, taken_by_claim
from dray.api.pools import CountersLeft
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device, ResourceClaim, ResourceSlice


class ShareRow(msgspec.Struct, frozen=True):
    """What a claim has of a device that several may use."""

    claim: str
    used_by: tuple[str, ...]
    consumed: dict[str, str]


class CounterRow(msgspec.Struct, frozen=True):
    """What a device draws from a counter, or would draw, and what is left of all that there is."""

    counter_set: str
    counter: str
    drawn: str
    left: str
    total: str


class PartialUse(msgspec.Struct, frozen=True):
    """`left` is what nobody has of each capacity, `fits` the most that one more claim can have of it.

    Nothing fits where one capacity is used up; counters may forbid what would fit.
    """

    shares: tuple[ShareRow, ...] = ()
    left: dict[str, str] = {}
    fits: dict[str, str] = {}
    counters: tuple[CounterRow, ...] = ()
    blocked: bool = False  # too little is left of its counters


WHOLE = PartialUse()


class PoolUse:
    """One pool: its slices of the newest generation, and the claims that hold its devices."""

    def __init__(self, slices: Sequence[ResourceSlice], claims: Iterable[ResourceClaim]) -> None:
        self._held: dict[str, list[tuple[ResourceClaim, Share]]] = {}
        used: set[str] = set()
        pool = (slices[0].spec.driver, slices[0].spec.pool.name)
        for claim in claims:
            taken = taken_by_claim(claim)
            used |= {id_.device for id_ in taken.touched if id_[:2] == pool}
            for share in taken.shares:
                if share.device[:2] == pool:
                    self._held.setdefault(share.device.device, []).append((claim, share))
        self._used = used
        self._left = CountersLeft.of(slices, used)
        self._totals = CountersLeft.of(slices, ())

    def of(self, id_: DeviceId, device: Device) -> PartialUse:
        """How a device of the pool is used."""
        if not device.consumesCounters and not device.allowMultipleAllocations:
            return WHOLE
        held = self._held.get(device.name, [])
        left = self._capacity_left(id_, device, [share for _, share in held])
        return PartialUse(
            shares=tuple(_share(claim, share) for claim, share in held),
            left={name: str(much) for name, much in left.items()},
            fits=_fitting(device, left),
            counters=tuple(self._counters(device)),
            blocked=device.name not in self._used and not self._left.fits(device),
        )

    def _capacity_left(self, id_: DeviceId, device: Device, shares: Sequence[Share]) -> dict[str, Quantity]:
        if not device.allowMultipleAllocations:
            return {}
        gone = consumed(shares).get(id_, {})
        return {
            name: max(ZERO, Quantity.parse(capacity.value) - gone.get(name, ZERO))
            for name, capacity in device.capacity.items()
        }

    def _counters(self, device: Device) -> Iterable[CounterRow]:
        for drawn in device.consumesCounters:
            for name, counter in drawn.counters.items():
                left, total = (str(of.left(drawn.counterSet, name)) for of in (self._left, self._totals))
                yield CounterRow(drawn.counterSet, name, counter.value, left, total)


def _share(claim: ResourceClaim, share: Share) -> ShareRow:
    return ShareRow(f"{claim.metadata.namespace}/{claim.metadata.name}", consumers(claim), dict(share.consumed))


def consumers(claim: ResourceClaim) -> tuple[str, ...]:
    """Who uses a claim, as `pod/name`."""
    return tuple(f"{r.resource.removesuffix('s')}/{r.name}" for r in claim.status.reservedFor)


def _fitting(device: Device, left: dict[str, Quantity]) -> dict[str, str]:
    found = {name: largest_within(device.capacity[name], much) for name, much in left.items()}
    if any(most.sign <= 0 for most in found.values()):
        return {}
    return {name: str(most) for name, most in found.items()}
