"""Partly used devices: who holds which share, what is left of counters and capacity, and how much still fits.

No I/O. Left out: devices that are wholly used or free (`occupancy`), and drawing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.allocator.capacity import largest_within
from dray.api.allocations import Share
from dray.api.availability import PoolUse
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device, ResourceClaim


class ShareRow(msgspec.Struct, frozen=True):
    """A claim's share of a device that several claims may use."""

    claim: str
    used_by: tuple[str, ...]
    consumed: dict[str, str]


class CounterRow(msgspec.Struct, frozen=True):
    """A device's use of a counter: the amount it draws when allocated, the amount left, and the total."""

    counter_set: str
    counter: str
    drawn: str
    left: str
    total: str


class PartialUse(msgspec.Struct, frozen=True):
    """Partial use of a device.

    `left` is the unused amount of each capacity, `fits` the most that one more claim can get.

    `fits` is empty if any capacity is used up. Exhausted counters may prevent use even if `fits` is not empty.
    """

    shares: tuple[ShareRow, ...] = ()
    left: dict[str, str] = {}
    fits: dict[str, str] = {}
    counters: tuple[CounterRow, ...] = ()
    blocked: bool = False  # whether its counters have too little left


WHOLE = PartialUse()


def partial_use(use: PoolUse, device: Device) -> PartialUse:
    """Return how a device of a pool is used."""
    if not device.consumesCounters and not device.allowMultipleAllocations:
        return WHOLE
    left: dict[str, Quantity] = {}
    if device.allowMultipleAllocations:
        gone = use.consumed(device.name)
        left = {
            name: max(ZERO, Quantity.parse(capacity.value) - gone.get(name, ZERO))
            for name, capacity in device.capacity.items()
        }
    return PartialUse(
        shares=tuple(_share(claim, share) for claim, share in use.shares(device.name)),
        left={name: str(much) for name, much in left.items()},
        fits=_fitting(device, left),
        counters=tuple(_counters(use, device)),
        blocked=device.name not in use.held and not use.left.fits(device),
    )


def _counters(use: PoolUse, device: Device) -> Iterable[CounterRow]:
    """Yield a row for each counter that a device draws on.

    Amounts are quantities as text.
    """
    for drawn in device.consumesCounters:
        for name, counter in drawn.counters.items():
            left, total = (str(of.left(drawn.counterSet, name)) for of in (use.left, use.total))
            yield CounterRow(drawn.counterSet, name, counter.value, left, total)


def _share(claim: ResourceClaim, share: Share) -> ShareRow:
    return ShareRow(f"{claim.metadata.namespace}/{claim.metadata.name}", consumers(claim), dict(share.consumed))


def consumers(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the users of a claim, like `pod/NAME`."""
    return tuple(f"{r.resource.removesuffix('s')}/{r.name}" for r in claim.status.reservedFor)


def _fitting(device: Device, left: dict[str, Quantity]) -> dict[str, str]:
    """Return the most that one more claim can get of each capacity; empty if any capacity is used up.

    `left` is what is left of each capacity; amounts are quantities as text.
    """
    found = {name: largest_within(device.capacity[name], much) for name, much in left.items()}
    if any(most.sign <= 0 for most in found.values()):
        return {}
    return {name: str(most) for name, most in found.items()}
