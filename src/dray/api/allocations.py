"""Devices and shares of devices that an allocation takes.

The scheduler's ledger, the API server, pool status and explain all use these functions to count devices in use. A
result with admin access takes nothing. A result with a share ID takes only a share, and the device stays
available to other claims. Counters are not part of an allocation: a device in use consumes the counters of its
slice once, regardless of its number of shares. `pools` handles published devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from dray.api.quantity import Quantity
from dray.api.types.resource import AllocationResult, ResourceClaim


class DeviceId(NamedTuple):
    """Cluster-wide identity of a device: driver, pool and device name."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Share(NamedTuple):
    """One share of a device. `consumed` holds the consumed capacities as (name, quantity), as in the claim."""

    device: DeviceId
    share: str
    consumed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, device: tuple[str, str, str], share: str, consumed: Mapping[str, str]) -> Share:
        """Return the share of a device (driver, pool, name) with these consumed capacities.

        `share` is the share ID.
        """
        return cls(DeviceId(*device), share, tuple(sorted(consumed.items())))


class Taken(msgspec.Struct, frozen=True, gc=False):
    """Devices and shares that one or several allocations take."""

    devices: tuple[DeviceId, ...] = ()
    shares: tuple[Share, ...] = ()

    @property
    def touched(self) -> tuple[DeviceId, ...]:
        """The devices in use, completely or in part, without duplicates; these consume counters.

        The devices held completely come first.
        """
        if not self.shares:
            return self.devices
        return tuple(dict.fromkeys((*self.devices, *(share.device for share in self.shares))))

    def __bool__(self) -> bool:
        return bool(self.devices or self.shares)

    def beyond(self, other: Taken) -> Taken:
        """Return the devices and shares that `other` does not contain, sorted and without duplicates."""
        if not other and len(self.devices) + len(self.shares) == 1:  # a new allocation of one device
            return self
        devices = tuple(sorted(set(self.devices).difference(other.devices))) if self.devices else ()
        return Taken(devices, tuple(sorted(set(self.shares).difference(other.shares))) if self.shares else ())


NOTHING = Taken()


def taken_by(allocation: AllocationResult | None) -> Taken:
    """Return the devices and shares that an allocation takes; nothing for None.

    Devices allocated with admin access are left out, because other claims can still take them.
    """
    if allocation is None:
        return NOTHING
    devices, shares = [], []
    for result in allocation.devices.results:
        if result.adminAccess:
            continue
        device = DeviceId(result.driver, result.pool, result.device)
        if result.shareID:
            shares.append(Share.of(device, result.shareID, result.consumedCapacity))
        else:
            devices.append(device)
    return Taken(tuple(devices), tuple(shares))


def taken_by_claim(claim: ResourceClaim | None) -> Taken:
    """Return the devices and shares that a claim takes; nothing for None or an unallocated claim.

    Devices allocated with admin access are left out.
    """
    return NOTHING if claim is None else taken_by(claim.status.allocation)


def taken_by_all(claims: Iterable[ResourceClaim]) -> Taken:
    """Return the devices and shares that several claims take together."""
    return together(taken_by_claim(claim) for claim in claims)


def together(several: Iterable[Taken]) -> Taken:
    """Return the devices and shares of several allocations in one object; duplicates are kept."""
    known = [*several]
    return Taken(
        tuple(device for taken in known for device in taken.devices),
        tuple(share for taken in known for share in taken.shares),
    )


def consumed(shares: Iterable[Share]) -> dict[DeviceId, dict[str, Quantity]]:
    """Return the total capacity that shares consume, by device and capacity name.

    Devices without a share are left out. Raises QuantityError if an amount is invalid.
    """
    found: dict[DeviceId, dict[str, Quantity]] = {}
    for share in shares:
        own = found.setdefault(share.device, {})
        for name, value in share.consumed:
            quantity = Quantity.parse(value)
            own[name] = own[name] + quantity if name in own else quantity
    return found


def node_of(allocation: AllocationResult | None) -> str:
    """Return the name of the only node that can use an allocation; empty if the allocation names no node or several."""
    terms = allocation.nodeSelector.nodeSelectorTerms if allocation and allocation.nodeSelector else ()
    if len(terms) != 1 or terms[0].matchExpressions or len(terms[0].matchFields) != 1:
        return ""
    field = terms[0].matchFields[0]
    is_one = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_one else ""
