"""What still fits: for each class, how many devices could be allocated, on one node and in the whole cluster.

Counted from what is published and taken. Where partitions exclude each other, they are taken from the smallest up, which
gives a number that surely fits, and perhaps not the largest. Left out: room for the pods themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from dray.allocator.budget import StepMeter
from dray.allocator.taints import intolerable
from dray.api.pools import CountersLeft, PoolName
from dray.api.quantity import ZERO, Quantity
from dray.api.types.resource import Device, DeviceClass
from dray.api.usage import MOST_DEVICES
from dray.inspect.asking import expressions
from dray.inspect.hardware import Hardware, Published, matching
from dray.inspect.snapshot import Snapshot


class ClassRoom(msgspec.Struct, frozen=True):
    """What is left of a class. `best` devices are the largest claim that fits, on `node`; `spread` counts nodes by what
    they have left. `exact` is false where more could fit."""

    name: str
    total: int
    free: int
    node: str
    best: int
    spread: tuple[tuple[int, int], ...]
    exact: bool


def room_of(snapshot: Snapshot, meter: StepMeter | None) -> list[ClassRoom]:
    """What is left of each class. Raises OutOfSteps where the meter says so."""
    hardware = Hardware(snapshot.slices, meter)
    return [_room(one, hardware, snapshot) for _, one in sorted(snapshot.classes.items())]


def _room(class_: DeviceClass, hardware: Hardware, snapshot: Snapshot) -> ClassRoom:
    of_class = matching(hardware.usable, expressions(class_.spec.selectors), hardware.meter).passed
    free = [one for one in of_class if one.id not in snapshot.taken and not intolerable(one.device.taints, ())]
    drawn = _drawn(free, hardware, snapshot)
    on = Counter({one.node: 0 for one in of_class})
    on.update(one.node for one in drawn)
    node, best = max(on.items(), key=lambda item: item[1], default=("", 0))
    spread = Counter(on.values())
    simple = not any(one.device.consumesCounters or one.device.allowMultipleAllocations for one in free)
    return ClassRoom(
        class_.metadata.name,
        len(of_class),
        len(drawn),
        node,
        min(best, MOST_DEVICES),
        tuple(sorted(spread.items())),
        simple,
    )


def _drawn(free: Sequence[Published], hardware: Hardware, snapshot: Snapshot) -> list[Published]:
    """Devices that can all be allocated together."""
    left: dict[PoolName, CountersLeft] = {}
    held: dict[PoolName, set[str]] = {}
    for device in snapshot.holders:
        held.setdefault(PoolName(device.driver, device.pool), set()).add(device.device)
    found = []
    for one in sorted(free, key=lambda one: _draw(one.device)):
        pool = PoolName(one.id.driver, one.id.pool)
        # A device that is shared already has drawn what it needs.
        if one.device.consumesCounters and one.id not in snapshot.holders:
            if pool not in left:
                left[pool] = CountersLeft.of(hardware.pools[pool], held.get(pool, set()))
            if not left[pool].draw(one.device):
                continue
        found.append(one)
    return found


def _draw(device: Device) -> Quantity:
    amount = ZERO
    for drawn in device.consumesCounters:
        for counter in drawn.counters.values():
            amount = amount + Quantity.parse(counter.value)
    return amount
