"""Rows of pools and devices, and where partitions are drawn.

`dray.api.availability` determines the state of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import NamedTuple

from dray.api.availability import PublishedDevice, PublishedPool
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device


class DeviceFlag(IntFlag):
    """Properties of a device besides its state."""

    TAINTED = 1
    UNHEALTHY = 2
    SHAREABLE = 4
    PARTITION = 8


def flags_of(found: PublishedDevice | None, is_sick: bool) -> int:
    """Return the flags of a device: a bit set of DeviceFlag as an int.

    `found` is None for a device in no slice, of which only the health is known.
    """
    flags = DeviceFlag.UNHEALTHY if is_sick else DeviceFlag(0)
    if found is None:
        return int(flags)
    if found.is_tainted:
        flags |= DeviceFlag.TAINTED
    if found.device.allowMultipleAllocations:
        flags |= DeviceFlag.SHAREABLE
    if found.device.consumesCounters:
        flags |= DeviceFlag.PARTITION
    return int(flags)


class PartitionPlace(NamedTuple):
    """Where a partition is drawn: the device whose cell it is in, and its share of that cell."""

    cell: str
    share: float


def partition_places(pool: PublishedPool) -> Mapping[str, PartitionPlace]:
    """Return the place of each partition in a pool.

    Partitions of the same hardware consume the same counters; the one that consumes most is the whole.
    """
    whole: dict[str, tuple[Quantity, str]] = {}
    partitions = {name: one.device for name, one in pool.devices.items() if one.device.consumesCounters}
    for name, device in partitions.items():
        for drawn in device.consumesCounters:
            amount = sum((Quantity.parse(counter.value) for counter in drawn.counters.values()), ZERO)
            if drawn.counterSet not in whole or amount > whole[drawn.counterSet][0]:
                whole[drawn.counterSet] = amount, name
    found: dict[str, PartitionPlace] = {}
    for name, device in partitions.items():
        cell = whole[device.consumesCounters[0].counterSet][1]
        found[name] = PartitionPlace(cell, _share(device, partitions[cell]))
    return found


def _share(device: Device, whole: Device) -> float:
    """Return the share of the whole that a partition consumes: the mean of its counters, because their units differ.

    From 0 to 1, rounded; 1 if the whole consumes nothing.
    """
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
