"""All about one device: what its slice publishes, what is left of it, and what its driver says of it."""

from __future__ import annotations

from dray.api.allocations import DeviceId
from dray.api.availability import PoolUse, PublishedPool
from dray.api.types.resource import Device, DeviceAttribute
from dray.api.wire import Tree
from dray.web.inventory import DashboardInventory

_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def device_tree(inventory: DashboardInventory, number: int, view: PublishedPool, name: str) -> Tree:
    """The answer to the question `device`, but for the classes that it belongs to."""
    id_, use = DeviceId(*view.name, name), inventory.use_of(view)
    found = view.devices.get(name)
    tree: Tree = {"id": number, "driver": id_.driver, "pool": id_.pool, "name": name}
    if found is None:  # a claim holds it, and no slice has it
        empty: Tree = {"attributes": {}, "capacity": {}, "taints": [], "counters": []}
        return tree | {"node": "", "slice": "", "generation": 0, "conditions": _conditions(use, id_)} | empty
    device, one = found.device, found.slice
    return tree | {
        "node": found.node,
        "slice": one.metadata.name,
        "generation": one.spec.pool.generation,
        "attributes": {key: _attribute(value) for key, value in device.attributes.items()},
        "capacity": _capacity(use, device),
        "taints": inventory.taints(id_, device),
        "counters": _counters(use, device),
        "conditions": _conditions(use, id_),
    }


def _attribute(attribute: DeviceAttribute) -> Tree:
    for kind in _KINDS:
        value = getattr(attribute, kind)
        if value is not None and value != ():
            return {"type": kind, "value": value}
    return {"type": "", "value": None}


def _capacity(use: PoolUse, device: Device) -> Tree:
    used = use.consumed(device.name)
    return {
        name: {"value": capacity.value, "used": str(used[name]) if name in used else None}
        for name, capacity in device.capacity.items()
    }


def _counters(use: PoolUse, device: Device) -> list[Tree]:
    """What a partition draws on, and what is left of it."""
    return [
        {
            "set": drawn.counterSet,
            "counters": {
                name: {"needed": counter.value, "left": str(use.left.left(drawn.counterSet, name))}
                for name, counter in drawn.counters.items()
            },
        }
        for drawn in device.consumesCounters
    ]


def _conditions(use: PoolUse, id_: DeviceId) -> list[Tree]:
    return [
        {"type": said.type, "status": said.status, "reason": said.reason, "message": said.message}
        for claim in use.holders.claims(id_)
        for one in claim.status.devices
        if (one.driver, one.pool, one.device) == id_
        for said in one.conditions or ()
    ]
