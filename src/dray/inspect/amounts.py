"""Who holds what ran out: counters that partitions share, and capacity that shares take.

The allocator tells which amounts a device lacks; claims tell who has them. Left out: whole devices (`shortage`).
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.allocations import Taken, taken_by_claim
from dray.api.quantity import Quantity
from dray.api.reasons.devices import AmountLimit, LackingAmount
from dray.api.reasons.requested import HeldAmount
from dray.api.types.resource import Device, ResourceClaim
from dray.inspect.hardware import Hardware
from dray.inspect.snapshot import Snapshot


class Amounts:
    """What the claims of a cluster hold of counters and capacities."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware) -> None:
        self._snapshot = snapshot
        self._devices = {one.id: one.device for one in hardware.devices}

    def holders(self, lacking: Iterable[LackingAmount]) -> dict[str, tuple[HeldAmount, ...]]:
        """What every claim, by its namespace and name, holds of the amounts that are lacking."""
        wanted = sorted({(one.place, one.counter_set, one.name) for one in lacking if one.limit is AmountLimit.LEFT})
        found = {}
        for claim in self._snapshot.all(ResourceClaim) if wanted else ():
            taken = taken_by_claim(claim)
            held = tuple(
                HeldAmount(place, name, str(much), counter_set)
                for place, counter_set, name in wanted
                if (much := self._held(taken, place, counter_set, name)).sign > 0
            )
            if held:
                found[f"{claim.metadata.namespace}/{claim.metadata.name}"] = held
        return found

    def _held(self, taken: Taken, place: str, counter_set: str, name: str) -> Quantity:
        if not counter_set:
            shares = (dict(share.consumed) for share in taken.shares if str(share.device) == place)
            return _total(consumed.get(name) for consumed in shares)
        touched = (id_ for id_ in taken.touched if f"{id_.driver}/{id_.pool}" == place)
        devices = (self._devices.get(id_) for id_ in touched)
        return _total(drawn(device, counter_set, name) for device in devices if device is not None)


def _total(amounts: Iterable[str | None]) -> Quantity:
    total = Quantity.parse("0")
    for much in amounts:
        if much is not None:
            total = total + Quantity.parse(much) if total.sign else Quantity.parse(much)
    return total


def drawn(device: Device, counter_set: str, counter: str) -> str | None:
    """How much a device draws from a counter, as it is published; None where it draws nothing."""
    for consumption in device.consumesCounters:
        found = consumption.counters.get(counter) if consumption.counterSet == counter_set else None
        if found is not None and Quantity.parse(found.value).sign > 0:
            return found.value
    return None
