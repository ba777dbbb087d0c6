"""What the cluster has and what is taken, kept so that a change costs no more than what it touches.

Slices, nodes and devices in use come and go; views of nodes are rebuilt when next looked at. Equal contents and layouts
are one object. A device in use is one bit in its slice, so that a pool seen by every node changes in one place. Each
change is logged as (content, nodes that see it) for whoever keeps answers. Left out: the answers (`index`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakValueDictionary

from dray.allocator.bits import positions
from dray.allocator.content import Content, key_of
from dray.allocator.identity import DeviceId
from dray.allocator.layout import Layout, PoolName, PoolShape, View
from dray.allocator.pools import view
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice


class Change(NamedTuple):
    """Something happened to the devices of `content` (None: to anything) that these nodes may see."""

    content: Content | None
    nodes: int


class Stock:
    """A slice with the devices of it that are in use, and the nodes known to see it."""

    __slots__ = ("content", "nodes", "slice", "taken")

    def __init__(self, slice_: ResourceSlice, content: Content) -> None:
        self.slice = slice_
        self.content = content
        self.taken = 0
        self.nodes = 0


class Sight:
    """A node with its view, and the stock behind each part of the view."""

    __slots__ = ("looked", "node", "number", "stocks")

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.looked: View | None = None  # None: must look again
        self.stocks: tuple[Stock, ...] = ()

    @property
    def view(self) -> View:
        """What the node sees; ask `Inventory.sight` for one that is up to date."""
        if self.looked is None:
            raise LookupError(f"node {self.node.metadata.name} must look again")
        return self.looked

    def taken(self) -> int:
        """The devices in use, by their numbers in the view."""
        bits = 0
        for (offset, _), stock in zip(self.view.layout.parts, self.stocks, strict=True):
            bits |= stock.taken << offset
        return bits


class _Pool:
    """The slices of a pool by name, and the nodes that some of them belong to."""

    __slots__ = ("owners", "stocks")

    def __init__(self) -> None:
        self.stocks: dict[str, Stock] = {}
        self.owners: set[str] = set()


class Inventory:
    """Everything published, everything in use, and how each node sees it."""

    def __init__(self) -> None:
        self.log: list[Change] = []
        self.sights: list[Sight | None] = []
        self.everyone = 0
        self._numbers: dict[str, int] = {}
        self._taken: set[DeviceId] = set()
        self._vacant: list[int] = []
        self._pools: dict[PoolName, _Pool] = {}
        self._pool_of: dict[str, PoolName] = {}
        self._local: dict[str, dict[PoolName, None]] = {}
        self._shared: dict[PoolName, None] = {}
        self._contents: WeakValueDictionary[bytes, Content] = WeakValueDictionary()
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
        for device in slice_.spec.devices:
            if DeviceId(name.driver, name.pool, device.name) in self._taken:
                stock.taken |= stock.content.bit(device.name)
        self._pools.setdefault(name, _Pool()).stocks[slice_.metadata.name] = stock
        self._pool_of[slice_.metadata.name] = name
        self._republish(name)

    def remove_slice(self, name: str) -> None:
        """Forget a slice; nothing happens where there is none."""
        pool = self._pool_of.pop(name, None)
        if pool is not None:
            del self._pools[pool].stocks[name]
            self._republish(pool)

    def _republish(self, name: PoolName) -> None:
        """The pool looks different: who sees it now, and who saw it before, must look again."""
        pool = self._pools[name]
        before, was_shared = pool.owners, name in self._shared
        places = [stock.slice.spec for stock in pool.stocks.values()]
        pool.owners = {spec.nodeName for spec in places if spec.nodeName and not spec.sharedCounters}
        for owner in before - pool.owners:
            del self._local[owner][name]
        for owner in pool.owners - before:
            self._local.setdefault(owner, {})[name] = None
        if any(not spec.nodeName or spec.sharedCounters for spec in places):
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
        self.log.append(Change(None, 1 << number))

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

    def take(self, devices: Iterable[tuple[str, str, str]]) -> None:
        """Mark devices as in use, whether published or not; marking twice is the same as once."""
        for device in devices:
            id_ = DeviceId(*device)
            self._taken.add(id_)
            for stock, bit in self._stocks(id_):
                stock.taken |= bit

    def release(self, devices: Iterable[tuple[str, str, str]]) -> None:
        """Mark devices as free again."""
        for device in devices:
            id_ = DeviceId(*device)
            self._taken.discard(id_)
            for stock, bit in self._stocks(id_):
                stock.taken &= ~bit

    def _stocks(self, id_: DeviceId) -> Iterable[tuple[Stock, int]]:
        pool = self._pools.get(PoolName(id_.driver, id_.pool))
        for stock in pool.stocks.values() if pool is not None else ():
            bit = stock.content.bit(id_.device)
            if bit:
                if stock.nodes:
                    self.log.append(Change(stock.content, stock.nodes))
                yield stock, bit

    @property
    def taken(self) -> frozenset[DeviceId]:
        """All devices in use."""
        return frozenset(self._taken)

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
        pools = {name: [stock.slice for stock in self._ordered(name)] for name in {**own, **self._shared}}
        sight.looked = view(sight.node, pools, lambda slice_: self._stock(slice_).content, self._layout)
        sight.stocks = tuple(self._stock(slice_) for slice_ in sight.looked.slices)
        for stock in sight.stocks:
            stock.nodes |= 1 << sight.number

    def _ordered(self, pool: PoolName) -> list[Stock]:
        stocks = self._pools[pool].stocks
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
                sight.looked, sight.stocks = None, ()
        if nodes:
            self.log.append(Change(None, nodes))

    def _content(self, slice_: ResourceSlice, before: Content | None) -> Content:
        key = key_of(slice_)
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = Content(slice_.spec.driver, slice_.spec.devices, before)
        return found

    def _layout(self, pools: tuple[PoolShape, ...]) -> Layout:
        found = self._layouts.get(pools)
        if found is None:
            found = self._layouts[pools] = Layout(pools)
        return found
