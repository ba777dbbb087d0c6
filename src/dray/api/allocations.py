"""What an allocation takes: whole devices, and shares of devices with what they consume of its capacity.

Everybody who counts devices in use asks here: the scheduler's ledger, the API server's holds, pool status, explain.
Admin access takes nothing. A result with a share ID takes a share; the device stays open to others. Counters are not
part of an allocation: a device in use draws what its slice says, once, however many shares it has. Left out: what is
published (`pools`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from dray.api.quantity import Quantity
from dray.api.types.resource import AllocationResult, ResourceClaim


class DeviceId(NamedTuple):
    """A device as the whole cluster knows it."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Share(NamedTuple):
    """One share of a device. `consumed` has the capacity that it takes, by name, as it stands in the claim."""

    device: DeviceId
    share: str
    consumed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, device: tuple[str, str, str], share: str, consumed: Mapping[str, str]) -> Share:
        """A share that consumes these capacities."""
        return cls(DeviceId(*device), share, tuple(sorted(consumed.items())))


class Taken(msgspec.Struct, frozen=True, gc=False):
    """What one allocation, or several, take."""

    devices: tuple[DeviceId, ...] = ()
    shares: tuple[Share, ...] = ()

    @property
    def touched(self) -> tuple[DeviceId, ...]:
        """The devices that are in use, whole or in part, each once: those that draw from counters."""
        if not self.shares:
            return self.devices
        return tuple(dict.fromkeys((*self.devices, *(share.device for share in self.shares))))

    def __bool__(self) -> bool:
        return bool(self.devices or self.shares)

    def beyond(self, other: Taken) -> Taken:
        """What the other does not have: each once, in order."""
        if not other and len(self.devices) + len(self.shares) == 1:  # a new allocation of one device
            return self
        devices = tuple(sorted(set(self.devices).difference(other.devices))) if self.devices else ()
        return Taken(devices, tuple(sorted(set(self.shares).difference(other.shares))) if self.shares else ())


NOTHING = Taken()


def taken_by(allocation: AllocationResult | None) -> Taken:
    """What an allocation takes; nothing where there is none."""
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
    """What a claim takes; nothing where there is none, or where it is not allocated."""
    return NOTHING if claim is None else taken_by(claim.status.allocation)


def taken_by_all(claims: Iterable[ResourceClaim]) -> Taken:
    """What claims take together."""
    return together(taken_by_claim(claim) for claim in claims)


def together(several: Iterable[Taken]) -> Taken:
    """What several allocations take."""
    known = [*several]
    return Taken(
        tuple(device for taken in known for device in taken.devices),
        tuple(share for taken in known for share in taken.shares),
    )


def consumed(shares: Iterable[Share]) -> dict[DeviceId, dict[str, Quantity]]:
    """What shares consume together, by device and capacity."""
    found: dict[DeviceId, dict[str, Quantity]] = {}
    for share in shares:
        own = found.setdefault(share.device, {})
        for name, value in share.consumed:
            quantity = Quantity.parse(value)
            own[name] = own[name] + quantity if name in own else quantity
    return found


def node_of(allocation: AllocationResult | None) -> str:
    """The one node that an allocation is for; empty if it names none, or several."""
    terms = allocation.nodeSelector.nodeSelectorTerms if allocation and allocation.nodeSelector else ()
    if len(terms) != 1 or terms[0].matchExpressions or len(terms[0].matchFields) != 1:
        return ""
    field = terms[0].matchFields[0]
    is_one = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_one else ""
