"""What still fits: for each class, which devices are free, and how many can be allocated at the same time.

A device is free as `dray.api.availability` has it. Free partitions may exclude each other: then they are taken from the
smallest up, which gives a number that surely fits, and perhaps not the largest. Left out: room for the pods themselves.
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
    """What is left of a class.

    `free` devices are held by nobody, of `shared` ones some is left, and `together` of both can be allocated at the same
    time. `best` devices are the largest claim that fits, on `node`; `spread` counts nodes by what they have left. `exact`
    is false where more could fit.
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
    """What is left of each class. Raises OutOfSteps where the meter says so."""
    hardware = Hardware(snapshot.pools, meter)
    return [_room(one, hardware, snapshot) for _, one in sorted(snapshot.classes.items())]


def _room(class_: DeviceClass, hardware: Hardware, snapshot: Snapshot) -> ClassRoom:
    selectors, lost = (
        expressions(class_.spec.selectors),
        [one for one in hardware.devices if _pool(one) in hardware.problems],
    )
    of_class = matching(hardware.usable, selectors, hardware.meter).passed
    unusable = matching(lost, selectors, hardware.meter).passed  # what is wrong with them is nothing against the others
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
    """Devices that can all be allocated at the same time."""
    pools: dict[PoolName, dict[str, Published]] = {}
    for one in devices:
        pools.setdefault(_pool(one), {})[one.device.name] = one
    return [of[name] for pool, of in pools.items() for name in snapshot.uses[pool].together(of)]


def _pool(one: Published) -> PoolName:
    return PoolName(one.id.driver, one.id.pool)
