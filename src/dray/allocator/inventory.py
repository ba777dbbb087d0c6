"""All published devices and which of them are in use. A change costs only what it touches.

Slices, nodes and devices in use are added and removed at any time. The view of a node is built when it is needed
next. Equal device lists and equal layouts are one shared object. A device in use is one bit in the state of its
slice, so a pool that every node can reach changes in one place. Each change is logged with the device list and the
nodes that see it; `index`, which caches answers, reads that log. Left out: the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

import msgspec

from dray.allocator.bits import position, positions
from dray.allocator.capacity import amount
from dray.allocator.content import DeviceList, key_of
from dray.allocator.identity import Features
from dray.allocator.layout import Layout, NodeView, PoolShape
from dray.allocator.packing import NodeUsage
from dray.allocator.pools import view
from dray.api.allocations import DeviceId, Share
from dray.api.pools import PoolName
from dray.api.types.core import Node
from dray.api.types.resource import Device, ResourceSlice


class SliceChange(msgspec.Struct, frozen=True):
    """A change of devices in `content` (None: any device) that the nodes of a bit set may see."""

    content: DeviceList | None
    nodes: int


class SliceState:
    """A slice, which of its devices are in use, and the nodes whose views contain it."""

    __slots__ = ("changes", "content", "nodes", "shares", "slice", "taken")

    def __init__(self, slice_: ResourceSlice, content: DeviceList) -> None:
        self.slice = slice_
        self.content = content
        self.taken = 0
        self.shares: dict[int, dict[str, int]] = {}  # device position → capacity name → amount in use
        self.nodes = 0
        self.changes = 0

    def drawing(self) -> list[int]:
        """Return the positions of the devices in use, whole or by shares, that consume counters."""
        return [at for at in self.content.draws if self.taken >> at & 1 or at in self.shares]


class NodeDevices:
    """A node, its view of the published devices, and the slice state behind each part of the view."""

    __slots__ = ("_used", "elsewhere", "looked", "node", "number", "slice_states")

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.looked: NodeView | None = None  # None: the view has to be built again
        self.slice_states: tuple[SliceState, ...] = ()
        self.elsewhere: tuple[
            tuple[int, SliceState], ...
        ] = ()  # slices that the node cannot use, but whose devices consume counters of its pools
        self._used: tuple[tuple[int, ...], NodeUsage] | None = None  # as of these changes

    @property
    def view(self) -> NodeView:
        """The node's view. Raises LookupError if it is out of date; `Inventory.node_devices` returns nodes with a
        current view.
        """
        if self.looked is None:
            raise LookupError(f"node {self.node.metadata.name} has no current view")
        return self.looked

    def forget(self) -> None:
        """Drop the view, because published devices have changed."""
        self.looked, self._used = None, None
        self.slice_states, self.elsewhere = (), ()

    def usage(self) -> NodeUsage:
        """Return which devices are in use, numbered as in the view."""
        layout = self.view.layout
        if not layout.packing.size:
            return self._count(layout)
        changes = tuple(
            [slice_state.changes for slice_state in self.slice_states]
            + [slice_state.changes for _, slice_state in self.elsewhere]
        )
        if self._used is None or self._used[0] != changes:
            self._used = changes, self._count(layout)
        return self._used[1]

    def _count(self, layout: Layout) -> NodeUsage:
        bits = 0
        shares: list[tuple[int, dict[str, int]]] = []
        for offset, slice_state in zip(layout.offsets, self.slice_states, strict=True):
            bits |= slice_state.taken << offset
            if slice_state.shares:
                shares += [(1 << offset + at, consumed) for at, consumed in slice_state.shares.items()]
        if not layout.packing.size and not shares:
            return NodeUsage(bits)
        drawn = [
            (pool, slice_state.content.devices[at])
            for pool, slice_state in self.elsewhere
            for at in slice_state.drawing()
        ]
        return layout.packing.usage(bits, shares, drawn)

    def together(self) -> Iterable[list[DeviceList]]:
        """Yield groups of device lists whose devices can exclude each other.

        The slices of a pool with counters are one group. Every other slice is a group of its own.
        """
        slice_states = iter(self.slice_states)
        for pool in self.view.layout.pools:
            contents = [next(slice_states).content for _ in pool.parts]
            if pool.counters:
                yield contents
            else:
                yield from ([content] for content in contents)

    def dependency_key(self, touches: Callable[[DeviceList], bool]) -> tuple[object, ...]:
        """Return a key of all state that an answer about some device lists depends on.

        `touches` says which device lists these are. Nodes with equal keys have the same answer. The key is () if none
        of the node's devices matter.
        """
        found: list[object] = []
        slice_states = iter(self.slice_states)
        for number, pool in enumerate(self.view.layout.pools):
            own = [(next(slice_states), part.visible) for part in pool.parts]
            touched = [(slice_state, visible) for slice_state, visible in own if touches(slice_state.content)]
            if touched and pool.counters:
                touched = own
                found += [slice_state for at, slice_state in self.elsewhere if at == number]
            found += touched
        return tuple(found)


class _PoolSlices:
    """The slices of a pool by name, and the nodes that own some of them (`spec.nodeName`)."""

    __slots__ = ("owners", "slice_states")

    def __init__(self) -> None:
        self.slice_states: dict[str, SliceState] = {}
        self.owners: set[str] = set()


class Inventory:
    """All published devices, all devices in use, and the view that each node has of them."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.log: list[SliceChange] = []
        self.by_number: list[NodeDevices | None] = []
        self.everyone = 0
        self._numbers: dict[str, int] = {}
        self._taken: set[DeviceId] = set()
        self._shares: dict[DeviceId, dict[str, Share]] = {}
        self._vacant: list[int] = []
        self._pools: dict[PoolName, _PoolSlices] = {}
        self._pool_of: dict[str, PoolName] = {}
        self._local: dict[str, dict[PoolName, None]] = {}
        self._shared: dict[PoolName, None] = {}
        self._contents: WeakValueDictionary[bytes, DeviceList] = WeakValueDictionary()
        self.taking_from_nodes: set[str] = set()  # slices with devices that take cpu or memory from their node
        self.skipping_operations: set[str] = set()  # slices whose driver is not to be called on nodes
        self._layouts: WeakValueDictionary[tuple[PoolShape, ...], Layout] = WeakValueDictionary()

    # Slices.

    def upsert_slice(self, slice_: ResourceSlice) -> None:
        """Add or replace a slice. A slice with the name and the spec of a known one changes nothing."""
        pool = self._pool_of.get(slice_.metadata.name)
        known = None if pool is None else self._pools[pool].slice_states[slice_.metadata.name]
        if known is not None and known.slice.spec == slice_.spec:
            return
        name = PoolName(slice_.spec.driver, slice_.spec.pool.name)
        if name != pool:
            self.remove_slice(slice_.metadata.name)
        slice_state = SliceState(slice_, self._content(slice_, known.content if known is not None else None))
        for at, device in enumerate(slice_.spec.devices):
            id_ = DeviceId(name.driver, name.pool, device.name)
            if id_ in self._taken:
                slice_state.taken |= 1 << at
            if id_ in self._shares:
                slice_state.shares[at] = self._consumed(id_)
        self._pools.setdefault(name, _PoolSlices()).slice_states[slice_.metadata.name] = slice_state
        _mark(self.taking_from_nodes, slice_, any(device.nodeAllocatableResources for device in slice_.spec.devices))
        _mark(self.skipping_operations, slice_, bool(slice_.spec.skipNodeOperations))
        self._pool_of[slice_.metadata.name] = name
        self._republish(name)

    def remove_slice(self, name: str) -> None:
        """Remove a slice, if it exists."""
        pool = self._pool_of.pop(name, None)
        self.taking_from_nodes.discard(name)
        self.skipping_operations.discard(name)
        if pool is not None:
            del self._pools[pool].slice_states[name]
            self._republish(pool)

    def device(self, id_: DeviceId, node: str = "") -> Device | None:
        """Return a device as the newest generation of its pool describes it, or None if no slice contains it.

        If slices of the same generation contradict each other, a slice that `node` sees wins, then the first by name.
        """
        pool = self._pools.get(PoolName(id_.driver, id_.pool))
        slice_states = self._ordered(pool.slice_states) if pool is not None else ()
        found = [slice_state for slice_state in slice_states if slice_state.content.bit(id_.device)]
        if not found:
            return None
        number = self._numbers.get(node)
        seen = self.node_devices(number).slice_states if number is not None and len(found) > 1 else ()
        slice_state = max(found, key=lambda slice_state: (slice_state in seen, slice_state.slice.spec.pool.generation))
        return slice_state.content.devices[position(slice_state.content.bit(id_.device))]

    def _republish(self, name: PoolName) -> None:
        """Drop the views of all nodes that see a changed pool or saw it before."""
        pool = self._pools[name]
        before, was_shared = pool.owners, name in self._shared
        places = [slice_state.slice.spec for slice_state in pool.slice_states.values()]
        pool.owners = {spec.nodeName for spec in places if spec.nodeName}
        for owner in before - pool.owners:
            del self._local[owner][name]
        for owner in pool.owners - before:
            self._local.setdefault(owner, {})[name] = None
        if any(not spec.nodeName for spec in places):
            self._shared[name] = None
        else:
            self._shared.pop(name, None)
        if not pool.slice_states:
            del self._pools[name]
        if was_shared or name in self._shared:
            self._look_again(self.everyone)
        else:
            seen_by = (self._numbers.get(owner) for owner in before | pool.owners)
            self._look_again(sum(1 << number for number in seen_by if number is not None))

    # Nodes.

    def upsert_node(self, node: Node) -> None:
        """Add or replace a node. Only a change of its labels has an effect."""
        name = node.metadata.name
        number = self._numbers.get(name)
        known = None if number is None else self.by_number[number]
        if known is not None and known.node.metadata.labels == node.metadata.labels:
            return
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self.by_number)
            if number == len(self.by_number):
                self.by_number.append(None)
            self._numbers[name] = number
            self.everyone |= 1 << number
        else:
            self._look_again(1 << number)
        self.by_number[number] = NodeDevices(node, number)
        self.log.append(SliceChange(None, 1 << number))

    def remove_node(self, name: str) -> None:
        """Remove a node, if it exists."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._look_again(1 << number)
            self.by_number[number] = None
            self._vacant.append(number)
            self.everyone &= ~(1 << number)

    def number(self, name: str) -> int | None:
        """Return the bit position of a node in sets of nodes, or None if the node does not exist."""
        return self._numbers.get(name)

    # Devices in use.

    def take(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices, as (driver, pool, device), and shares as in use, whether or not a slice publishes them.

        Repeating it does not count anything twice.
        """
        told: set[SliceState] = set()
        for device in devices:
            id_ = device if isinstance(device, DeviceId) else DeviceId(*device)
            self._taken.add(id_)
            for slice_state, bit in self._states_with(id_, told):
                slice_state.taken |= bit
        for share in shares:
            self._shares.setdefault(share.device, {})[share.share] = share
            self._consume(share.device, told)

    def release(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices, as (driver, pool, device), and shares as free again. Those that are not in use are ignored."""
        told: set[SliceState] = set()
        for device in devices:
            id_ = device if isinstance(device, DeviceId) else DeviceId(*device)
            self._taken.discard(id_)
            for slice_state, bit in self._states_with(id_, told):
                slice_state.taken &= ~bit
        for share in shares:
            held = self._shares.get(share.device, {})
            held.pop(share.share, None)
            if not held:
                self._shares.pop(share.device, None)
            self._consume(share.device, told)

    def _consume(self, id_: DeviceId, told: set[SliceState]) -> None:
        """Copy the amounts in use of a shared device into the state of its slices."""
        for slice_state, bit in self._states_with(id_, told):
            if id_ in self._shares:
                slice_state.shares[position(bit)] = self._consumed(id_)
            else:
                slice_state.shares.pop(position(bit), None)

    def _consumed(self, id_: DeviceId) -> dict[str, int]:
        together: dict[str, int] = {}
        for share in self._shares[id_].values():
            for name, much in share.consumed:
                together[name] = together.get(name, 0) + amount(much)
        return together

    def _states_with(self, id_: DeviceId, told: set[SliceState]) -> Iterable[tuple[SliceState, int]]:
        """Yield the slice states that contain a device, each with the device's bit, and log the change.

        The change is logged also for the slices that share counters with the device. Slice states in `told` are not
        logged again, so one call of `take` or `release` logs each slice once, however many devices it names.
        """
        pool = self._pools.get(PoolName(id_.driver, id_.pool))
        for slice_state in pool.slice_states.values() if pool is not None else ():
            bit = slice_state.content.bit(id_.device)
            if bit:
                counted = pool is not None and position(bit) in slice_state.content.draws
                for other in pool.slice_states.values() if counted and pool is not None else (slice_state,):
                    if other.nodes and other not in told:
                        told.add(other)
                        self.log.append(SliceChange(other.content, other.nodes))
                slice_state.changes += 1
                yield slice_state, bit

    @property
    def taken(self) -> frozenset[DeviceId]:
        """The devices that are in use as a whole, not by shares."""
        return frozenset(self._taken)

    @property
    def shares(self) -> frozenset[Share]:
        """The shares of devices that are in use."""
        return frozenset(share for held in self._shares.values() for share in held.values())

    # Views.

    def node_devices(self, number: int) -> NodeDevices:
        """Return a node with a current view. Raises KeyError for a number that no node has."""
        node_devices = self.by_number[number]
        if node_devices is None:
            raise KeyError(number)
        if node_devices.looked is None:
            self._look(node_devices)
        return node_devices

    def _look(self, node_devices: NodeDevices) -> None:
        own = self._local.get(node_devices.node.metadata.name, {})
        pools = {
            name: [one.slice for one in self._ordered(self._pools[name].slice_states)]
            for name in {**own, **self._shared}
        }
        node_devices.looked = view(
            node_devices.node, pools, lambda slice_: self._state_of(slice_).content, self._layout, self.features
        )
        node_devices.slice_states = tuple(self._state_of(slice_) for slice_ in node_devices.looked.slices)
        node_devices.elsewhere = tuple(
            (pool, self._state_of(slice_))
            for pool, slices in enumerate(node_devices.looked.elsewhere)
            for slice_ in slices
        )
        for slice_state in node_devices.slice_states:
            slice_state.nodes |= 1 << node_devices.number

    def _ordered(self, slice_states: dict[str, SliceState]) -> list[SliceState]:
        return [slice_states[name] for name in sorted(slice_states)]

    def _state_of(self, slice_: ResourceSlice) -> SliceState:
        name = slice_.metadata.name
        return self._pools[self._pool_of[name]].slice_states[name]

    def _look_again(self, nodes: int) -> None:
        for number in positions(nodes):
            node_devices = self.by_number[number]
            if node_devices is not None:
                for slice_state in node_devices.slice_states:
                    slice_state.nodes &= ~(1 << number)
                node_devices.forget()
        if nodes:
            self.log.append(SliceChange(None, nodes))

    def _content(self, slice_: ResourceSlice, before: DeviceList | None) -> DeviceList:
        key = key_of(slice_)
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = DeviceList(slice_.spec.driver, slice_.spec.devices, before)
        return found

    def _layout(self, pools: tuple[PoolShape, ...]) -> Layout:
        found = self._layouts.get(pools)
        if found is None:
            found = self._layouts[pools] = Layout(pools, self.features)
        return found


def _mark(names: set[str], slice_: ResourceSlice, is_so: bool) -> None:
    """Add the name of a slice to a set if `is_so` is set, or else remove it."""
    (names.add if is_so else names.discard)(slice_.metadata.name)
