"""The state of nodes and of the pods on them, updated with every change.

Each node has a position, the same as in the allocator's index. A set of nodes is an integer with one bit for each position,
so rules combine with `&`, and five thousand nodes cost little more than five hundred. Code that caches a set finds in
`object_changes` and `usage_changes` which nodes it has to look at again. A pod counts on its node as soon as the scheduler
has chosen the node (*assumed*), before the API server has confirmed it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import compress, count, islice
from math import inf
from operator import attrgetter

from dray.allocator.bits import positions
from dray.api.host_ports import Port
from dray.api.types.core import Node, Pod, PodAffinityTerm
from dray.verdicts.demand import PodDemand, ResourceAmounts, amounts
from dray.verdicts.node_resources import demand_on_node

_SIZES = 8  # pod sizes for which `Load` caches its results
NOWHERE = -1  # position of a node that has pods but does not exist (any more)


@dataclass(slots=True, eq=False)
class PlacedPod:
    """A pod on a node and the resources that it takes."""

    pod: Pod
    demand: PodDemand
    is_nominated: bool = False  # the place is reserved until preempted pods are gone


@dataclass(slots=True, eq=False)
class NodeInfo:
    """One node: the object, its allocatable resources, and what pods take of them."""

    name: str
    position: int = NOWHERE
    node: Node | None = None  # None if pods name a node that does not exist
    allocatable: ResourceAmounts = field(default_factory=dict)
    taken: ResourceAmounts = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    pods: dict[str, PlacedPod] = field(default_factory=dict)
    ports: dict[Port, int] = field(default_factory=dict)

    def free(self, resource: str) -> int:
        """Return the free amount of a resource, in the units of `demand.amount`.

        Negative if pods take more than the node has. A resource that the node lacks has the amount 0.
        """
        return self.allocatable.get(resource, 0) - self.taken.get(resource, 0)

    @property
    def free_pods(self) -> int:
        """Number of pods that the node still accepts. Negative if more pods are on the node than it allows."""
        return self.allocatable.get("pods", 0) - len(self.pods)

    def put(self, placed: PlacedPod, sign: int) -> None:
        demand = placed.demand
        for name, value in demand.amounts.items():
            self.taken[name] = self.taken.get(name, 0) + sign * value
        self.scored_cpu += sign * demand.scored_cpu
        self.scored_memory += sign * demand.scored_memory
        for port in demand.ports:
            count = self.ports.get(port, 0) + sign
            if count:
                self.ports[port] = count
            else:
                self.ports.pop(port, None)


class ChangeLog:
    """Node positions in the order in which the nodes changed, so that cached sets can be updated."""

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._start = 0
        self.end = 0  # number of changes so far; not a property, because it is read several times for every pod

    def add(self, position: int, limit: int) -> None:
        self._entries.append(position)
        self.end += 1
        if self.end - self._start > 2 * limit:
            self._start = self.end - limit
            del self._entries[:-limit]

    def since(self, seen: int) -> set[int] | None:
        """Return the positions that changed after change number `seen`, or None if the log no longer goes back that
        far.

        The set is empty if nothing changed.
        """
        if seen < self._start:
            return None
        return set(self._entries[seen - self._start :])


Size = tuple[int, int]  # millicores and bytes


class Load:
    """Utilization of cpu and memory by node position, in arrays, because a hundred nodes are compared for every pod.

    Consecutive pods mostly have the same size, so results are cached for a few sizes.
    """

    def __init__(self) -> None:
        self._taken = array("d")  # utilization from 0 to 1, half of it from cpu and half from memory
        self._of_millicore = array("d")
        self._of_byte = array("d")
        self._kept: dict[Size, list[float]] = {}  # by position; empty while the size was asked for only once

    def left(self, cpu: int, memory: int, positions: Sequence[int]) -> list[float]:
        """Return the free percentage of each node after adding one pod of this size."""
        size = cpu, memory
        kept = self._kept.get(size)
        if kept is None:  # not cached yet: it may be the only pod of its size
            if len(self._kept) == _SIZES:
                del self._kept[next(iter(self._kept))]
            self._kept[size] = []
            return [self._left(size, at) for at in positions]
        if not kept:
            kept += [self._left(size, at) for at in range(len(self._taken))]
        return [*map(kept.__getitem__, positions)]

    def _left(self, size: Size, at: int) -> float:
        return 100 - 100 * (self._taken[at] + size[0] * self._of_millicore[at] + size[1] * self._of_byte[at])

    def grow(self, nodes: int) -> None:
        more = nodes - len(self._taken)
        if more > 0:
            for numbers in (self._taken, self._of_millicore, self._of_byte):
                numbers.extend([0.0] * more)
            self._kept.clear()

    def resize(self, info: NodeInfo) -> None:
        """Update a node whose allocatable resources have changed."""
        self._of_millicore[info.position] = 0.5 / (info.allocatable.get("cpu") or inf)
        self._of_byte[info.position] = 0.5 / (info.allocatable.get("memory") or inf)
        self.weigh(info)

    def weigh(self, info: NodeInfo) -> None:
        """Update a node whose pods have changed."""
        at = info.position
        self._taken[at] = info.scored_cpu * self._of_millicore[at] + info.scored_memory * self._of_byte[at]
        for size, kept in self._kept.items():
            if kept:
                kept[at] = self._left(size, at)


class Sample:
    """Nodes whose scores are compared, in the order in which the scheduler visited them."""

    def __init__(self, table: NodeTable, positions: list[int]) -> None:
        self.table = table
        self.positions = positions

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> NodeInfo:
        info = self.table.infos[self.positions[index]]
        assert info is not None  # only nodes that exist are compared
        return info

    @cached_property
    def infos(self) -> list[NodeInfo]:
        """The nodes, for scores that need more than positions."""
        return [self[index] for index in range(len(self))]


class NodeTable:
    """All nodes and the pods placed on them."""

    def __init__(self) -> None:
        self.infos: list[NodeInfo | None] = []  # by position
        self.load = Load()
        self.tainted = 0  # bit set of the nodes that have taints
        self.everyone = 0  # bit set of the nodes that exist
        self.offering: dict[
            str, int
        ] = {}  # extended resource → bit set of the nodes that have some, by a device plugin
        self.object_changes = ChangeLog()
        self.usage_changes = ChangeLog()
        self._log_limit = 1024  # minimum number of changes that the logs keep
        self.refusers: dict[str, tuple[PlacedPod, NodeInfo]] = {}  # placed pods with required anti-affinity
        self.refusing = 0  # number of their anti-affinity terms
        self.record: Callable[[Callable[[], object]], None] | None = (
            None  # receives functions that undo changes, during a trial
        )
        self.priorities: Counter[int] = Counter()  # priority → number of placed pods
        self._by_name: dict[str, NodeInfo] = {}
        self._placed: dict[str, tuple[PlacedPod, NodeInfo]] = {}

    def __iter__(self) -> Iterator[NodeInfo]:
        return (info for info in self.infos if info is not None)

    def __len__(self) -> int:
        return self.everyone.bit_count()

    def get(self, name: str) -> NodeInfo | None:
        return self._by_name.get(name)

    def node_of(self, uid: str) -> str:
        """Return the name of the node of a placed pod, assumed or confirmed. Empty for other pods, including
        nominated ones.
        """
        entry = self._placed.get(uid)
        return entry[1].name if entry and not entry[0].is_nominated else ""

    def upsert(self, node: Node, position: int) -> NodeInfo:
        """Add or replace a node. No other node may have its position."""
        info = self._info(node.metadata.name)
        self._offer(info, {})
        info.node, info.position = node, position
        self._offer(info, amounts(node.status.allocatable or node.status.capacity))
        self.infos.extend([None] * (position + 1 - len(self.infos)))
        self.infos[position] = info
        self._log_limit = max(1024, 4 * len(self.infos))
        self.load.grow(len(self.infos))
        self.load.resize(info)
        self.everyone |= 1 << position
        self.tainted = self.tainted & ~(1 << position) | bool(node.spec.taints) << position
        self.object_changes.add(position, self._log_limit)
        return info

    def remove(self, name: str) -> None:
        info = self._by_name.get(name)
        if info is None or info.node is None:
            return
        self.infos[info.position] = None
        self.everyone &= ~(1 << info.position)
        self.tainted &= ~(1 << info.position)
        self._offer(info, {})
        self.object_changes.add(info.position, self._log_limit)
        info.node, info.position = None, NOWHERE
        self._retire(info)

    def _offer(self, info: NodeInfo, allocatable: ResourceAmounts) -> None:
        """Set the allocatable resources of a node."""
        for name in {*info.allocatable, *allocatable} if info.position != NOWHERE else ():
            if "/" in name:
                others = self.offering.get(name, 0) & ~(1 << info.position)
                self.offering[name] = others | bool(allocatable.get(name)) << info.position
        info.allocatable = allocatable

    def nominate(self, pod: Pod, node_name: str, demand: PodDemand) -> None:
        """Reserve a place on a node for a preempting pod, until `place` or `unplace` is called for it."""
        self.unplace(pod.metadata.uid)
        self._note(pod.metadata.uid)
        self._put(PlacedPod(pod, demand, is_nominated=True), node_name)

    def place(self, pod: Pod, node_name: str, demand: PodDemand | None = None) -> None:
        """Count a pod on a node. A pod that is already placed is moved. `demand` avoids computing it again."""
        known = self._placed.get(pod.metadata.uid)
        if known is not None and not known[0].is_nominated and _asked(known[0].pod.spec) == _asked(pod.spec):
            if known[1].name == node_name:
                if self.record is not None:
                    self.record(partial(setattr, known[0], "pod", known[0].pod))
                known[0].pod = pod  # the usual case: an assumed pod is confirmed
                return
            demand = known[0].demand
        self._note(pod.metadata.uid)
        self._take_away(pod.metadata.uid)
        self._put(PlacedPod(pod, demand or demand_on_node(pod)), node_name)

    def unplace(self, uid: str) -> None:
        if uid in self._placed:
            self._note(uid)
            self._take_away(uid)

    def placed_pod(self, uid: str) -> PlacedPod | None:
        """Return a placed pod with its resources, or None. Nominated pods count as placed."""
        entry = self._placed.get(uid)
        return entry[0] if entry else None

    def _put(self, placed: PlacedPod, node_name: str) -> None:
        info, uid, affinity = self._info(node_name), placed.pod.metadata.uid, placed.pod.spec.affinity
        refuses = bool(
            affinity
            and affinity.podAntiAffinity
            and affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
        )
        info.pods[uid] = placed
        info.put(placed, 1)
        self.priorities[placed.pod.spec.priority or 0] += 1
        self._placed[uid] = (placed, info)
        if refuses:
            self.refusers[uid] = (placed, info)
            self.refusing += len(required_anti_affinity(placed.pod))
        self._used(info)

    def _take_away(self, uid: str) -> None:
        entry = self._placed.pop(uid, None)
        if entry is None:
            return
        placed, info = entry
        del info.pods[uid]
        info.put(placed, -1)
        self._count_out(placed.pod.spec.priority or 0)
        if self.refusers.pop(uid, None) is not None:
            self.refusing -= len(required_anti_affinity(placed.pod))
        self._used(info)
        self._retire(info)

    def _count_out(self, priority: int) -> None:
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]

    def _note(self, uid: str) -> None:
        """During a trial, record how to restore the current place of a pod."""
        if self.record is not None:
            placed, info = self._placed.get(uid) or (None, None)
            self.record(partial(self._restore, uid, placed, info.name if info is not None else ""))

    def _restore(self, uid: str, placed: PlacedPod | None, node_name: str) -> None:
        self._take_away(uid)
        if placed is not None:
            self._put(placed, node_name)

    @property
    def pods(self) -> int:
        """Number of placed pods, nominated ones included."""
        return len(self._placed)

    def placed(self) -> Iterable[tuple[PlacedPod, NodeInfo]]:
        return self._placed.values()

    def named(self, nodes: int) -> Iterator[NodeInfo]:
        """Return the nodes of a bit set, ordered by position. Positions without a node are skipped."""
        return filter(None, compress(self.infos, _selectors(nodes)))

    def sample(self, nodes: int, start: int, limit: int) -> Sample:
        """Return up to `limit` nodes of a bit set, beginning at position `start` and wrapping around at the end."""
        return Sample(self, [*_sampled(nodes, start, limit)])

    def _info(self, name: str) -> NodeInfo:
        info = self._by_name.get(name)
        if info is None:
            info = self._by_name[name] = NodeInfo(name)
        return info

    def _used(self, info: NodeInfo) -> None:
        if info.position != NOWHERE:
            self.load.weigh(info)
            self.usage_changes.add(info.position, self._log_limit)

    def _retire(self, info: NodeInfo) -> None:
        """Remove the entry of a node that neither exists nor has pods."""
        if info.node is None and not info.pods:
            del self._by_name[info.name]


@lru_cache(maxsize=8)  # consecutive pods mostly fit on the same nodes
def _sampled(nodes: int, start: int, limit: int) -> tuple[int, ...]:
    """Return up to `limit` positions of a bit set, beginning at `start` and wrapping around at the end."""
    found = _some(nodes >> start, start, limit)
    if start and len(found) < limit:
        found += _some(nodes & ((1 << start) - 1), 0, limit - len(found))
    return tuple(found)


def _some(nodes: int, first: int, limit: int) -> list[int]:
    """Return the positions of the lowest `limit` members of a bit set whose lowest bit stands for position `first`.

    If the set is dense, a short prefix contains enough members, and expanding that prefix is fastest.
    """
    piece = nodes & ((1 << 4 * limit) - 1)
    if piece.bit_count() < limit:
        return [first + at for at in islice(positions(nodes), limit)]
    return list(islice(compress(count(first), _selectors(piece)), limit))


# the parts of a pod's spec that determine what it takes from a node
_asked = attrgetter("containers", "initContainers", "resources", "overhead", "affinity", "priority")


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.podAntiAffinity is None:
        return ()
    return affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution


_DIGITS = bytes.maketrans(b"01", b"\0\1")


def _selectors(nodes: int) -> bytes:
    """Expand a bit set to one byte for each position, lowest first, as selectors for `itertools.compress`."""
    return f"{nodes:b}"[::-1].encode().translate(_DIGITS)
