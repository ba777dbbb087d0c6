"""Who holds what ran out: counters that partitions share, and capacity that shares take.

The allocator tells which amounts a device lacks; claims tell who has them. Left out: whole devices (`shortage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.quantity import Quantity
from dray.api.reasons.causes import HeldAmount
from dray.api.reasons.devices import AmountLimit, LackingAmount
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
        wanted = [amount for amount in lacking if amount.limit is AmountLimit.LEFT]
        found = {}
        for claim in self._snapshot.all(ResourceClaim) if wanted else ():
            held = {one for amount in wanted for one in self._held(claim, amount)}
            if held:
                found[f"{claim.metadata.namespace}/{claim.metadata.name}"] = tuple(
                    sorted(held, key=lambda one: (one.device, one.counter_set, one.name))
                )
        return found

    def _held(self, claim: ResourceClaim, lacking: LackingAmount) -> Iterator[HeldAmount]:
        taken = taken_by_claim(claim)
        if lacking.counter_set:
            pool = lacking.device.rpartition("/")[0]
            for id_ in taken.touched:
                if f"{id_.driver}/{id_.pool}" == pool:
                    yield from self._drawn(id_, lacking)
            return
        for share in taken.shares:
            if str(share.device) == lacking.device:
                much = dict(share.consumed).get(lacking.name)
                if much is not None:
                    yield HeldAmount(lacking.device, lacking.name, much)

    def _drawn(self, id_: DeviceId, lacking: LackingAmount) -> Iterator[HeldAmount]:
        device = self._devices.get(id_)
        much = drawn(device, lacking.counter_set, lacking.name) if device is not None else None
        if much is not None:
            yield HeldAmount(str(id_), lacking.name, much, lacking.counter_set)


def drawn(device: Device, counter_set: str, counter: str) -> str | None:
    """How much a device draws from a counter, as it is published; None where it draws nothing."""
    for consumption in device.consumesCounters:
        found = consumption.counters.get(counter) if consumption.counterSet == counter_set else None
        if found is not None and Quantity.parse(found.value).sign > 0:
            return found.value
    return None
