"""The score for packing: the cost of hardware units that are unused so far and that some devices would begin to use.

Left out: the choice of a node, which the scheduler makes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from dray.allocator.bits import positions
from dray.api.allocations import DeviceId
from dray.api.types.resource import Device

if TYPE_CHECKING:
    from dray.allocator.inventory import SliceState

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NODE, ROOT, DEVICE = 64.0, 8.0, 1.0  # cost of the first use of a unit; nodes usually have fewer than eight roots


def cost_of(slice_states: Iterable[SliceState], chosen: Collection[DeviceId]) -> float:
    """Return the cost of the units that the chosen devices begin to use, plus the fraction of devices that stays free.

    Units are the node, its PCIe roots, and physical devices. Partitions of one physical device share a counter set.
    """
    used: set[Hashable] = set()
    begun: dict[Hashable, float] = {}
    total = taken = 0
    for slice_state in slice_states:
        spec = slice_state.slice.spec
        total += len(spec.devices)
        for at in {*positions(slice_state.taken), *slice_state.shares}:
            taken += 1
            used.update(unit for unit, _ in _units(spec.pool.name, spec.devices[at]))
        mine = {id_.device for id_ in chosen if (id_.driver, id_.pool) == (spec.driver, spec.pool.name)}
        for device in spec.devices if mine else ():
            if device.name in mine:
                begun.update(_units(spec.pool.name, device))
    cost = sum(weight for unit, weight in begun.items() if unit not in used)
    return cost + (max(0, total - taken - len(chosen)) / total if total else 0.0)


def _units(pool: str, device: Device) -> Iterator[tuple[Hashable, float]]:
    yield "node", NODE
    root = device.attributes.get(PCIE_ROOT)
    if root is not None and root.string is not None:
        yield (PCIE_ROOT, root.string), ROOT
    for draw in device.consumesCounters:
        yield (pool, draw.counterSet), DEVICE
