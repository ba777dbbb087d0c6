"""All about one device: what its slice publishes, what is left of it, and what its driver says of it."""

from __future__ import annotations

from dray.api.allocations import DeviceId, consumed, taken_by_claim
from dray.api.pools import CountersLeft
from dray.api.types.resource import Device, DeviceAttribute
from dray.api.wire import Tree
from dray.web.inventory import DashboardInventory
from dray.web.rows.devices import PoolView

_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def device_tree(inventory: DashboardInventory, number: int, view: PoolView, name: str) -> Tree:
    """The answer to the question `device`, but for the classes that it belongs to."""
    id_ = DeviceId(*view.name, name)
    place = view.places.get(name)
    tree: Tree = {"id": number, "driver": id_.driver, "pool": id_.pool, "name": name}
    if place is None:  # a claim holds it, and no slice has it
        empty: Tree = {"attributes": {}, "capacity": {}, "taints": [], "counters": []}
        return tree | {"node": "", "slice": "", "generation": 0, "conditions": _conditions(inventory, id_)} | empty
    device, one = place.device, place.slice
    return tree | {
        "node": one.spec.nodeName or device.nodeName or "",
        "slice": one.metadata.name,
        "generation": one.spec.pool.generation,
        "attributes": {key: _attribute(value) for key, value in device.attributes.items()},
        "capacity": _capacity(inventory, id_, device),
        "taints": inventory.taints(id_, device),
        "counters": _counters(inventory, view, device),
        "conditions": _conditions(inventory, id_),
    }


def _attribute(attribute: DeviceAttribute) -> Tree:
    for kind in _KINDS:
        value = getattr(attribute, kind)
        if value is not None and value != ():
            return {"type": kind, "value": value}
    return {"type": "", "value": None}


def _capacity(inventory: DashboardInventory, id_: DeviceId, device: Device) -> Tree:
    shares = [
        share for claim in inventory.holders(id_) for share in taken_by_claim(claim).shares if share.device == id_
    ]
    used = consumed(shares).get(id_, {})
    return {
        name: {"value": capacity.value, "used": str(used[name]) if name in used else None}
        for name, capacity in device.capacity.items()
    }


def _counters(inventory: DashboardInventory, view: PoolView, device: Device) -> list[Tree]:
    """What a partition draws on, and what is left of it."""
    used = {name for name in view.places if inventory.holders(DeviceId(*view.name, name))}
    left = CountersLeft.of(view.slices, used)
    return [
        {
            "set": drawn.counterSet,
            "counters": {
                name: {"needed": counter.value, "left": str(left.left(drawn.counterSet, name))}
                for name, counter in drawn.counters.items()
            },
        }
        for drawn in device.consumesCounters
    ]


def _conditions(inventory: DashboardInventory, id_: DeviceId) -> list[Tree]:
    return [
        {"type": said.type, "status": said.status, "reason": said.reason, "message": said.message}
        for claim in inventory.holders(id_)
        for one in claim.status.devices
        if (one.driver, one.pool, one.device) == id_
        for said in one.conditions or ()
    ]
