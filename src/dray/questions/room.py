"""Free devices of each class, and how many of them can be allocated at the same time.

A device counts as free as defined by `dray.api.availability`. Free partitions may exclude each other; they are then
taken smallest first, which gives a number that certainly fits but may not be the largest. Left out: resources for the
pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from dray.allocator.budget import StepMeter
from dray.api.availability import DeviceState
from dray.api.pools import PoolName
from dray.api.types.resource import DeviceClass
from dray.api.usage import MOST_DEVICES
from dray.inspect.asking import expressions
from dray.inspect.hardware import Hardware, Published, matching
from dray.inspect.snapshot import Snapshot


class ClassRoom(msgspec.Struct, frozen=True):
    """Free devices of a class.

    `free` devices are unallocated, and `shared` ones have capacity left; `together` of both can be allocated at the
    same time.
    The largest claim that fits has `best` devices, on `node`. `spread` lists pairs: a number of devices and the
    number of nodes
    that have this many left. `exact` is false if more might fit.
    """

    name: str
    total: int
    free: int
    shared: int
    together: int
    node: str
    best: int
    spread: tuple[tuple[int, int], ...]
    exact: bool


def room_of(snapshot: Snapshot, meter: StepMeter | None = None) -> list[ClassRoom]:
    """Return the free devices of each class, sorted by name. Raises OutOfSteps if the meter's steps are used up."""
    hardware = Hardware(snapshot.pools, meter)
    return [_room(one, hardware, snapshot) for _, one in sorted(snapshot.classes.items())]


def _room(class_: DeviceClass, hardware: Hardware, snapshot: Snapshot) -> ClassRoom:
    """Return the free devices of one class."""
    selectors, lost = (
        expressions(class_.spec.selectors),
        [one for one in hardware.devices if _pool(one) in hardware.problems],
    )
    of_class = matching(hardware.usable, selectors, hardware.meter).passed
    # selector errors on these devices do not affect the usable devices
    unusable = matching(lost, selectors, hardware.meter).passed
    by_state: dict[DeviceState, list[Published]] = {}
    for one in of_class:
        by_state.setdefault(snapshot.uses[_pool(one)].state(one.device.name), []).append(one)
    free, shared = by_state.get(DeviceState.FREE, []), by_state.get(DeviceState.SHARED, [])
    together = _together([*free, *shared], snapshot)
    on = Counter({one.node: 0 for one in of_class})
    on.update(one.node for one in together)
    node, best = max(on.items(), key=lambda item: item[1], default=("", 0))
    return ClassRoom(
        class_.metadata.name,
        len(of_class) + len(unusable),
        len(free),
        len(shared),
        len(together),
        node,
        min(best, MOST_DEVICES),
        tuple(sorted(Counter(on.values()).items())),
        exact=not any(one.device.consumesCounters or one.device.allowMultipleAllocations for one in (*free, *shared)),
    )


def _together(devices: Sequence[Published], snapshot: Snapshot) -> list[Published]:
    """Return devices that can all be allocated at the same time."""
    pools: dict[PoolName, dict[str, Published]] = {}
    for one in devices:
        pools.setdefault(_pool(one), {})[one.device.name] = one
    return [of[name] for pool, of in pools.items() for name in snapshot.uses[pool].together(of)]


def _pool(one: Published) -> PoolName:
    return PoolName(one.id.driver, one.id.pool)
