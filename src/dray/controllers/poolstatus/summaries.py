"""Summarizes what is left of partitions and shares in a pool, by partition type and by capacity.

Partitions are grouped by the attribute that the slice, or else the request, names. The number of allocatable
partitions is computed for each type on its own: the unused partitions of this type that fit, one after the other,
into the counters that are left. Pure. Left out: the number of devices (`computation`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from dray.api.allocations import DeviceId, Share, consumed
from dray.api.pools import CountersLeft
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device, ResourceSlice

MOST_ENTRIES = 32  # limit of the API for entries of a summary


class Summaries(NamedTuple):
    """Partition and shareable summaries for a pool's status. Each of `problems` begins with a machine-readable word.

    `shareable` is None if there is nothing to summarize.
    """

    partitions: tuple[dict[str, Any], ...] = ()
    shareable: dict[str, Any] | None = None
    problems: tuple[str, ...] = ()


class _Unsummarized(Exception):
    """A summary cannot be made. The text gives the reason and begins with a machine-readable word."""


def summarize(
    slices: Sequence[ResourceSlice], used: Collection[str], shares: Iterable[Share], default: str | None
) -> Summaries:
    """Return the summaries of a pool in which the devices `used` are in use.

    `default` names the attribute for partition types. A summary that would be incomplete is left out, and `problems`
    says why.
    """
    partitions: tuple[dict[str, Any], ...] = ()
    shareable: dict[str, Any] | None = None
    problems: list[str] = []
    try:
        partitions = _partitions(slices, used, default)
    except _Unsummarized as problem:
        problems.append(str(problem))
    try:
        shareable = _shareable(slices, used, shares)
    except _Unsummarized as problem:
        problems.append(str(problem))
    return Summaries(partitions, shareable, tuple(problems))


def _partitions(
    slices: Sequence[ResourceSlice], used: Collection[str], default: str | None
) -> tuple[dict[str, Any], ...]:
    groups = _by_type(slices, default)
    for (_, type_), devices in groups.items():
        if len({_cost(device) for device in devices}) > 1:
            raise _Unsummarized(f"PartitionCostMismatch: devices of partition type {type_} consume different amounts")
    if len(groups) > MOST_ENTRIES:
        raise _Unsummarized(f"PartitionSummaryOverCap: {len(groups)} types of partitions, {MOST_ENTRIES} can be listed")
    return tuple(
        {
            "attribute": attribute,
            "type": type_,
            "total": len(devices),
            "allocatable": _allocatable(devices, used, CountersLeft.of(slices, used)),
        }
        for (attribute, type_), devices in sorted(groups.items())
    )


def _by_type(slices: Sequence[ResourceSlice], default: str | None) -> dict[tuple[str, str], list[Device]]:
    """Return the pool's partitions by attribute and value of their type. Raises `_Unsummarized` for a missing type.

    `default` is the attribute for slices that name none, used only if no slice of the pool names one. Devices that
    consume no counters are left out.
    """
    if any(one.spec.partitionTypeAttribute for one in slices):
        default = None
    groups: dict[tuple[str, str], list[Device]] = {}
    is_counted = any(one.spec.sharedCounters for one in slices)
    for one in slices:
        attribute = one.spec.partitionTypeAttribute or default
        if attribute and one.spec.devices and not is_counted:
            raise _Unsummarized(
                f"PartitionTypeMissing: {attribute} is the attribute for partition types, but the pool has no counters"
            )
        for device in one.spec.devices if attribute else ():
            if device.consumesCounters and attribute:
                groups.setdefault((attribute, _type(device, attribute, one.spec.driver)), []).append(device)
    return groups


def _type(device: Device, attribute: str, driver: str) -> str:
    domain, _, id_ = attribute.rpartition("/")
    held = device.attributes.get(attribute) or (device.attributes.get(id_) if domain in ("", driver) else None)
    if held is None or held.string is None:
        raise _Unsummarized(f"PartitionTypeMissing: device {device.name} has no attribute {attribute} that is a string")
    return held.string


def _cost(device: Device) -> tuple[Quantity, ...]:
    """Return the sorted amounts of counters that a partition consumes, without the names, which may differ."""
    amounts = (Quantity.parse(c.value) for drawn in device.consumesCounters for c in drawn.counters.values())
    return tuple(sorted(amounts))


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
    if len(total) > MOST_ENTRIES:
        raise _Unsummarized(f"ShareableSummaryOverCap: {len(total)} capacities, {MOST_ENTRIES} can be listed")
    partial = sum(1 for name in devices if name in used)
    return {
        "fullyAvailableDevices": len(devices) - partial,
        "partiallyAvailableDevices": partial,
        "capacity": [
            {
                "name": name,
                "total": str(total[name]),
                "consumed": str(taken.get(name, ZERO)),
                "available": str(max(ZERO, total[name] - taken.get(name, ZERO))),
            }
            for name in sorted(total)
        ],
    }
