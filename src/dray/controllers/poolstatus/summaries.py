"""What is left of partitions and of shares in a pool, type by type and capacity by capacity.

Partitions are counted by the attribute that the slice, or else whoever asks, says tells them apart. How many of a type
can still be had is counted for each type by itself: those that are not in use and fit, one after the other, into the
counters that are left. Pure. Left out: how many devices there are (`computation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.allocations import DeviceId, Share, consumed
from dray.api.pools import CountersLeft
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device, DeviceAttribute, ResourceSlice

MOST_ENTRIES = 32  # that a summary lists, as the API has it


class Summaries(NamedTuple):
    """The summaries as they are written; absent where there is nothing to say. `problems` begin with a word for programs."""

    partitions: tuple[dict[str, Any], ...] = ()
    shareable: dict[str, Any] | None = None
    problems: tuple[str, ...] = ()


def summarize(
    slices: Sequence[ResourceSlice], used: Collection[str], shares: Iterable[Share], default: str | None
) -> Summaries:
    """Summarize a pool of which these devices are in use, whole or in part; `default` tells partitions apart."""
    partitions, problems = _partitions(slices, used, default)
    shareable = _shareable(slices, used, shares)
    if len(partitions) > MOST_ENTRIES:
        problems.append(f"PartitionSummaryOverCap: {len(partitions)} types of partitions, {MOST_ENTRIES} are listed")
    if shareable is not None and len(shareable["capacity"]) > MOST_ENTRIES:
        capacities = shareable["capacity"]
        problems.append(f"ShareableSummaryOverCap: {len(capacities)} capacities, {MOST_ENTRIES} are listed")
        shareable["capacity"] = capacities[:MOST_ENTRIES]
    return Summaries(tuple(partitions[:MOST_ENTRIES]), shareable, tuple(problems))


def _partitions(
    slices: Sequence[ResourceSlice], used: Collection[str], default: str | None
) -> tuple[list[dict[str, Any]], list[str]]:
    if any(one.spec.partitionTypeAttribute for one in slices):
        default = None
    groups: dict[tuple[str, str], list[Device]] = {}
    problems: list[str] = []
    for one in slices:
        attribute = one.spec.partitionTypeAttribute or default
        for device in one.spec.devices if attribute else ():
            if device.consumesCounters and attribute:
                value = _value(device.attributes, attribute, one.spec.driver)
                if value is None:
                    problems.append(f"PartitionTypeMissing: device {device.name} has no attribute {attribute}")
                else:
                    groups.setdefault((attribute, value), []).append(device)
    summaries = [
        {
            "attribute": attribute,
            "type": type_,
            "total": len(devices),
            "allocatable": _allocatable(devices, used, CountersLeft.of(slices, used)),
        }
        for (attribute, type_), devices in sorted(groups.items())
    ]
    return summaries, problems


def _value(attributes: Mapping[str, DeviceAttribute], name: str, driver: str) -> str | None:
    domain, _, id_ = name.rpartition("/")
    held = attributes.get(name) or (attributes.get(id_) if domain in ("", driver) else None)
    if held is None:
        return None
    found = next((v for v in (held.string, held.int, held.bool, held.version) if v is not None), None)
    return None if found is None else str(found).lower() if isinstance(found, bool) else str(found)


def _allocatable(devices: Iterable[Device], used: Collection[str], left: CountersLeft) -> int:
    return sum(1 for device in devices if device.name not in used and left.draw(device))


def _shareable(
    slices: Sequence[ResourceSlice], used: Collection[str], shares: Iterable[Share]
) -> dict[str, Any] | None:
    devices = {device.name: device for one in slices for device in one.spec.devices if device.allowMultipleAllocations}
    if not devices:
        return None
    total: dict[str, Quantity] = {}
    taken: dict[str, Quantity] = {}
    for device in devices.values():
        for name, capacity in device.capacity.items():
            total[name] = total.get(name, ZERO) + Quantity.parse(capacity.value)
    pool = DeviceId(slices[0].spec.driver, slices[0].spec.pool.name, "")
    for id_, amounts in consumed(shares).items():
        for name, much in amounts.items():
            if id_[:2] == pool[:2] and id_.device in devices and name in devices[id_.device].capacity:
                taken[name] = taken.get(name, ZERO) + much
    partial = sum(1 for name in devices if name in used)
    return {
        "fullyAvailableDevices": len(devices) - partial,
        "partiallyAvailableDevices": partial,
        "capacity": [
            {
                "name": name,
                "total": str(total[name]),
                "consumed": str(taken.get(name, ZERO)),
                "available": str(total[name] - taken.get(name, ZERO)),
            }
            for name in sorted(total)
        ],
    }
