"""What the cluster has and what is taken, kept so that a change costs no more than what it touches.

Slices, nodes and devices in use come and go; views of nodes are rebuilt when next looked at. Equal contents and layouts
are one object. A device in use is one bit in its slice, so that a pool seen by every node changes in one place. Each
change is logged as (content, nodes that see it) for whoever keeps answers. Left out: the answers (`index`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

import msgspec

from dray.allocator.bits import position, positions
from dray.allocator.capacity import amount
from dray.allocator.content import Content, key_of
from dray.allocator.identity import Features
from dray.allocator.layout import Layout, NodeView, PoolShape
from dray.allocator.packing import NodeUsage
from dray.allocator.pools import view
from dray.api.allocations import DeviceId, Share
from dray.api.pools import PoolName
from dray.api.types.core import Node
from dray.api.types.resource import Device, ResourceSlice


class StockChange(msgspec.Struct, frozen=True):
    """Something happened to the devices of `content` (None: to anything) that these nodes may see."""

    content: Content | None
    nodes: int


class Stock:
    """A slice with the devices of it that are in use, and the nodes known to see it."""

    __slots__ = ("changes", "content", "nodes", "shares", "slice", "taken")

    def __init__(self, slice_: ResourceSlice, content: Content) -> None:
        self.slice = slice_
        self.content = content
        self.taken = 0
        self.shares: dict[int, dict[str, int]] = {}  # of each device by position, what is consumed of each capacity
        self.nodes = 0
        self.changes = 0

    def drawing(self) -> list[int]:
        """The devices in use that draw on counters."""
        return [at for at in self.content.draws if self.taken >> at & 1 or at in self.shares]


class Sight:
    """A node with its view, and the stock behind each part of the view."""

    __slots__ = ("_used", "elsewhere", "looked", "node", "number", "stocks")

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.looked: NodeView | None = None  # None: must look again
        self.stocks: tuple[Stock, ...] = ()
        self.elsewhere: tuple[tuple[int, Stock], ...] = ()  # out of reach, but drawing on the counters of a pool
        self._used: tuple[tuple[int, ...], NodeUsage] | None = None  # as of these changes

    @property
    def view(self) -> NodeView:
        """What the node sees; ask `Inventory.sight` for one that is up to date."""
        if self.looked is None:
            raise LookupError(f"node {self.node.metadata.name} must look again")
        return self.looked

    def forget(self) -> None:
        """What the node sees is out of date."""
        self.looked, self._used = None, None
        self.stocks, self.elsewhere = (), ()

    def usage(self) -> NodeUsage:
        """What is in use, by the numbers of the view."""
        layout = self.view.layout
        if not layout.packing.size:
            return self._count(layout)
        changes = tuple([stock.changes for stock in self.stocks] + [stock.changes for _, stock in self.elsewhere])
        if self._used is None or self._used[0] != changes:
            self._used = changes, self._count(layout)
        return self._used[1]

    def _count(self, layout: Layout) -> NodeUsage:
        bits = 0
        shares: list[tuple[int, dict[str, int]]] = []
        for offset, stock in zip(layout.offsets, self.stocks, strict=True):
            bits |= stock.taken << offset
            if stock.shares:
                shares += [(1 << offset + at, consumed) for at, consumed in stock.shares.items()]
        if not layout.packing.size and not shares:
            return NodeUsage(bits)
        drawn = [(pool, stock.content.devices[at]) for pool, stock in self.elsewhere for at in stock.drawing()]
        return layout.packing.usage(bits, shares, drawn)

    def together(self) -> Iterable[list[Content]]:
        """The contents that have to do with each other: slices of a pool with counters, and else each by itself."""
        stocks = iter(self.stocks)
        for pool in self.view.layout.pools:
            contents = [next(stocks).content for _ in pool.parts]
            if pool.counters:
                yield contents
            else:
                yield from ([content] for content in contents)

    def concern(self, touches: Callable[[Content], bool]) -> tuple[object, ...]:
        """What decides about those contents: equal for two nodes on which the answer must be the same."""
        found: list[object] = []
        stocks = iter(self.stocks)
        for number, pool in enumerate(self.view.layout.pools):
            own = [(next(stocks), part.visible) for part in pool.parts]
            touched = [(stock, visible) for stock, visible in own if touches(stock.content)]
            if touched and pool.counters:
                touched = own
                found += [stock for at, stock in self.elsewhere if at == number]
            found += touched
        return tuple(found)


class _PoolSlices:
    """The slices of a pool by name, and the nodes that some of them belong to."""

    __slots__ = ("owners", "stocks")

    def __init__(self) -> None:
        self.stocks: dict[str, Stock] = {}
        self.owners: set[str] = set()


class Inventory:
    """Everything published, everything in use, and how each node sees it."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.log: list[StockChange] = []
        self.sights: list[Sight | None] = []
        self.everyone = 0
        self._numbers: dict[str, int] = {}
        self._taken: set[DeviceId] = set()
        self._shares: dict[DeviceId, dict[str, Share]] = {}
        self._vacant: list[int] = []
        self._pools: dict[PoolName, _PoolSlices] = {}
        self._pool_of: dict[str, PoolName] = {}
        self._local: dict[str, dict[PoolName, None]] = {}
        self._shared: dict[PoolName, None] = {}
        self._contents: WeakValueDictionary[bytes, Content] = WeakValueDictionary()
        self.taking_from_nodes: set[str] = set()  # slices with devices that take cpu or memory from their node
        self.skipping_operations: set[str] = set()  # slices whose driver is not to be called on nodes
        self._layouts: WeakValueDictionary[tuple[PoolShape, ...], Layout] = WeakValueDictionary()

    # Slices.

    def upsert_slice(self, slice_: ResourceSlice) -> None:
        """Add a slice, or replace the one of the same name; one that says the same changes nothing."""
        pool = self._pool_of.get(slice_.metadata.name)
        known = None if pool is None else self._pools[pool].stocks[slice_.metadata.name]
        if known is not None and known.slice.spec == slice_.spec:
            return
        name = PoolName(slice_.spec.driver, slice_.spec.pool.name)
        if name != pool:
            self.remove_slice(slice_.metadata.name)
        stock = Stock(slice_, self._content(slice_, known.content if known is not None else None))
        for at, device in enumerate(slice_.spec.devices):
            id_ = DeviceId(name.driver, name.pool, device.name)
            if id_ in self._taken:
                stock.taken |= 1 << at
            if id_ in self._shares:
                stock.shares[at] = self._consumed(id_)
        self._pools.setdefault(name, _PoolSlices()).stocks[slice_.metadata.name] = stock
        _mark(self.taking_from_nodes, slice_, any(device.nodeAllocatableResources for device in slice_.spec.devices))
        _mark(self.skipping_operations, slice_, bool(slice_.spec.skipNodeOperations))
        self._pool_of[slice_.metadata.name] = name
        self._republish(name)

    def remove_slice(self, name: str) -> None:
        """Forget a slice; nothing happens where there is none."""
        pool = self._pool_of.pop(name, None)
        self.taking_from_nodes.discard(name)
        self.skipping_operations.discard(name)
        if pool is not None:
            del self._pools[pool].stocks[name]
            self._republish(pool)

    def device(self, id_: DeviceId, node: str = "") -> Device | None:
        """A device as the newest slice of its pool describes it; None where nobody publishes it.

        Slices of a generation may contradict each other. Those that the node sees count first, then the first by name.
        """
        pool = self._pools.get(PoolName(id_.driver, id_.pool))
        stocks = self._ordered(pool.stocks) if pool is not None else ()
        found = [stock for stock in stocks if stock.content.bit(id_.device)]
        if not found:
            return None
        number = self._numbers.get(node)
        seen = self.sight(number).stocks if number is not None and len(found) > 1 else ()
        stock = max(found, key=lambda stock: (stock in seen, stock.slice.spec.pool.generation))
        return stock.content.devices[position(stock.content.bit(id_.device))]

    def _republish(self, name: PoolName) -> None:
        """The pool looks different: who sees it now, and who saw it before, must look again."""
        pool = self._pools[name]
        before, was_shared = pool.owners, name in self._shared
        places = [stock.slice.spec for stock in pool.stocks.values()]
        pool.owners = {spec.nodeName for spec in places if spec.nodeName}
        for owner in before - pool.owners:
            del self._local[owner][name]
        for owner in pool.owners - before:
            self._local.setdefault(owner, {})[name] = None
        if any(not spec.nodeName for spec in places):
            self._shared[name] = None
        else:
            self._shared.pop(name, None)
        if not pool.stocks:
            del self._pools[name]
        if was_shared or name in self._shared:
            self._look_again(self.everyone)
        else:
            seen_by = (self._numbers.get(owner) for owner in before | pool.owners)
            self._look_again(sum(1 << number for number in seen_by if number is not None))

    # Nodes.

    def upsert_node(self, node: Node) -> None:
        """Add a node, or replace the one of the same name; nothing but labels matters."""
        name = node.metadata.name
        number = self._numbers.get(name)
        known = None if number is None else self.sights[number]
        if known is not None and known.node.metadata.labels == node.metadata.labels:
            return
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self.sights)
            if number == len(self.sights):
                self.sights.append(None)
            self._numbers[name] = number
            self.everyone |= 1 << number
        else:
            self._look_again(1 << number)
        self.sights[number] = Sight(node, number)
        self.log.append(StockChange(None, 1 << number))

    def remove_node(self, name: str) -> None:
        """Forget a node; nothing happens where there is none."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._look_again(1 << number)
            self.sights[number] = None
            self._vacant.append(number)
            self.everyone &= ~(1 << number)

    def number(self, name: str) -> int | None:
        """The number under which a node appears in bit sets."""
        return self._numbers.get(name)

    # Devices in use.

    def take(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices and shares as in use, whether published or not; marking twice is the same as once."""
        told: set[Stock] = set()
        for device in devices:
            id_ = device if isinstance(device, DeviceId) else DeviceId(*device)
            self._taken.add(id_)
            for stock, bit in self._stocks(id_, told):
                stock.taken |= bit
        for share in shares:
            self._shares.setdefault(share.device, {})[share.share] = share
            self._consume(share.device, told)

    def release(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices and shares as free again."""
        told: set[Stock] = set()
        for device in devices:
            id_ = device if isinstance(device, DeviceId) else DeviceId(*device)
            self._taken.discard(id_)
            for stock, bit in self._stocks(id_, told):
                stock.taken &= ~bit
        for share in shares:
            held = self._shares.get(share.device, {})
            held.pop(share.share, None)
            if not held:
                self._shares.pop(share.device, None)
            self._consume(share.device, told)

    def _consume(self, id_: DeviceId, told: set[Stock]) -> None:
        """Note what is consumed of a device now."""
        for stock, bit in self._stocks(id_, told):
            if id_ in self._shares:
                stock.shares[position(bit)] = self._consumed(id_)
            else:
                stock.shares.pop(position(bit), None)

    def _consumed(self, id_: DeviceId) -> dict[str, int]:
        together: dict[str, int] = {}
        for share in self._shares[id_].values():
            for name, much in share.consumed:
                together[name] = together.get(name, 0) + amount(much)
        return together

    def _stocks(self, id_: DeviceId, told: set[Stock]) -> Iterable[tuple[Stock, int]]:
        """Where a device is published. Those that look at it, or at others that share its counters, get news.

        News of a stock that is among those told already is no news: one step is logged once, however many devices it takes.
        """
        pool = self._pools.get(PoolName(id_.driver, id_.pool))
        for stock in pool.stocks.values() if pool is not None else ():
            bit = stock.content.bit(id_.device)
            if bit:
                counted = pool is not None and position(bit) in stock.content.draws
                for other in pool.stocks.values() if counted and pool is not None else (stock,):
                    if other.nodes and other not in told:
                        told.add(other)
                        self.log.append(StockChange(other.content, other.nodes))
                stock.changes += 1
                yield stock, bit

    @property
    def taken(self) -> frozenset[DeviceId]:
        """All devices in use as a whole."""
        return frozenset(self._taken)

    @property
    def shares(self) -> frozenset[Share]:
        """All shares in use."""
        return frozenset(share for held in self._shares.values() for share in held.values())

    # Views.

    def sight(self, number: int) -> Sight:
        """A node with an up-to-date view."""
        sight = self.sights[number]
        if sight is None:
            raise KeyError(number)
        if sight.looked is None:
            self._look(sight)
        return sight

    def _look(self, sight: Sight) -> None:
        own = self._local.get(sight.node.metadata.name, {})
        pools = {
            name: [one.slice for one in self._ordered(self._pools[name].stocks)] for name in {**own, **self._shared}
        }
        sight.looked = view(sight.node, pools, lambda slice_: self._stock(slice_).content, self._layout, self.features)
        sight.stocks = tuple(self._stock(slice_) for slice_ in sight.looked.slices)
        sight.elsewhere = tuple(
            (pool, self._stock(slice_)) for pool, slices in enumerate(sight.looked.elsewhere) for slice_ in slices
        )
        for stock in sight.stocks:
            stock.nodes |= 1 << sight.number

    def _ordered(self, stocks: dict[str, Stock]) -> list[Stock]:
        return [stocks[name] for name in sorted(stocks)]

    def _stock(self, slice_: ResourceSlice) -> Stock:
        name = slice_.metadata.name
        return self._pools[self._pool_of[name]].stocks[name]

    def _look_again(self, nodes: int) -> None:
        for number in positions(nodes):
            sight = self.sights[number]
            if sight is not None:
                for stock in sight.stocks:
                    stock.nodes &= ~(1 << number)
                sight.forget()
        if nodes:
            self.log.append(StockChange(None, nodes))

    def _content(self, slice_: ResourceSlice, before: Content | None) -> Content:
        key = key_of(slice_)
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = Content(slice_.spec.driver, slice_.spec.devices, before)
        return found

    def _layout(self, pools: tuple[PoolShape, ...]) -> Layout:
        found = self._layouts.get(pools)
        if found is None:
            found = self._layouts[pools] = Layout(pools, self.features)
        return found


def _mark(names: set[str], slice_: ResourceSlice, is_so: bool) -> None:
    """Note of a slice whether something is so."""
    (names.add if is_so else names.discard)(slice_.metadata.name)
