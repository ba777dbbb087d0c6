"""A picture of the nodes and the pods on them, kept as they change.

Each node has a position, the same as in the index of devices; sets of nodes are integers with a bit a position, so that
rules combine with `&` and five thousand nodes cost little more than five hundred. Whoever caches a set learns from
`object_changes` and `usage_changes` which nodes to look at again. Pods that were given a node are counted from that
moment (*assumed*), before the API server has confirmed it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import compress, count, islice
from math import inf
from operator import attrgetter

from dray.allocator.bits import positions
from dray.api.host_ports import Port
from dray.api.types.core import Node, Pod, PodAffinityTerm
from dray.verdicts.demand import Amounts, PodDemand, amounts
from dray.verdicts.node_resources import demand_on_node

_SIZES = 8  # of pods, for which loads are kept
NOWHERE = -1  # the position of a node that does not exist (any more) but has pods


@dataclass(slots=True, eq=False)
class PlacedPod:
    """A pod on a node, with what it takes."""

    pod: Pod
    demand: PodDemand
    is_nominated: bool = False  # it does not run there yet: the place is kept for it until others are gone


@dataclass(slots=True, eq=False)
class NodeInfo:
    """One node: the object, what it can give, and what is taken."""

    name: str
    position: int = NOWHERE
    node: Node | None = None  # None while pods are known on a node that is not
    allocatable: Amounts = field(default_factory=dict)
    taken: Amounts = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    pods: dict[str, PlacedPod] = field(default_factory=dict)
    ports: dict[Port, int] = field(default_factory=dict)

    def free(self, resource: str) -> int:
        """How much of a resource is left."""
        return self.allocatable.get(resource, 0) - self.taken.get(resource, 0)

    @property
    def free_pods(self) -> int:
        """How many more pods the node takes."""
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
    """Positions in the order in which they changed, so that a cached set catches up with what it missed."""

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._start = 0
        self.end = 0  # the number of changes so far; a plain attribute, since every pod compares it several times

    def add(self, position: int, limit: int) -> None:
        self._entries.append(position)
        self.end += 1
        if self.end - self._start > 2 * limit:
            self._start = self.end - limit
            del self._entries[:-limit]

    def since(self, seen: int) -> set[int] | None:
        """The positions that changed after `seen`; None when that is too long ago to tell."""
        if seen < self._start:
            return None
        return set(self._entries[seen - self._start :])


Size = tuple[int, int]  # millicores and bytes


class Load:
    """How full each node is, by position, side by side in memory: a hundred nodes are compared for every pod.

    Pods that come one after the other are mostly of the same size, so what a pod would leave is kept for a few sizes.
    """

    def __init__(self) -> None:
        self._taken = array("d")  # of 1, cpu and memory each making up a half
        self._of_millicore = array("d")
        self._of_byte = array("d")
        self._kept: dict[Size, list[float]] = {}  # by position; empty after the first question

    def left(self, cpu: int, memory: int, positions: Sequence[int]) -> list[float]:
        """How many per cent of each of these nodes are free with one more pod of this size."""
        size = cpu, memory
        kept = self._kept.get(size)
        if kept is None:  # perhaps the only pod of its size
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
        """The node can give more or less than before."""
        self._of_millicore[info.position] = 0.5 / (info.allocatable.get("cpu") or inf)
        self._of_byte[info.position] = 0.5 / (info.allocatable.get("memory") or inf)
        self.weigh(info)

    def weigh(self, info: NodeInfo) -> None:
        """Pods came or went."""
        at = info.position
        self._taken[at] = info.scored_cpu * self._of_millicore[at] + info.scored_memory * self._of_byte[at]
        for size, kept in self._kept.items():
            if kept:
                kept[at] = self._left(size, at)


class Sample:
    """Nodes that are compared with one another, in the order in which they were met."""

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
        """The nodes themselves, for rules that must look at them."""
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
        self._log_limit = 1024  # changes that are kept at least
        self.refusers: dict[str, tuple[PlacedPod, NodeInfo]] = {}  # placed pods with required anti-affinity
        self.refusing = 0  # their terms, together
        self.record: Callable[[Callable[[], object]], None] | None = None  # is given inverses while something is tried
        self.priorities: Counter[int] = Counter()  # of the pods that are placed
        self._by_name: dict[str, NodeInfo] = {}
        self._placed: dict[str, tuple[PlacedPod, NodeInfo]] = {}

    def __iter__(self) -> Iterator[NodeInfo]:
        return (info for info in self.infos if info is not None)

    def __len__(self) -> int:
        return self.everyone.bit_count()

    def get(self, name: str) -> NodeInfo | None:
        return self._by_name.get(name)

    def node_of(self, uid: str) -> str:
        """Where a pod was placed, assumed or confirmed; empty when it was not, or only a place is kept for it."""
        entry = self._placed.get(uid)
        return entry[1].name if entry and not entry[0].is_nominated else ""

    def upsert(self, node: Node, position: int) -> NodeInfo:
        """Add a node at a position that no other node has, or replace it there."""
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

    def _offer(self, info: NodeInfo, allocatable: Amounts) -> None:
        """A node has this much to give."""
        for name in {*info.allocatable, *allocatable} if info.position != NOWHERE else ():
            if "/" in name:
                others = self.offering.get(name, 0) & ~(1 << info.position)
                self.offering[name] = others | bool(allocatable.get(name)) << info.position
        info.allocatable = allocatable

    def nominate(self, pod: Pod, node_name: str, demand: PodDemand) -> None:
        """Keep a place on a node for a pod that cannot run there yet. `place` and `unplace` end that."""
        self.unplace(pod.metadata.uid)
        self._note(pod.metadata.uid)
        self._put(PlacedPod(pod, demand, is_nominated=True), node_name)

    def place(self, pod: Pod, node_name: str, demand: PodDemand | None = None) -> None:
        """Count a pod on a node; placing it again, even elsewhere, replaces the first. `demand` where it is known."""
        known = self._placed.get(pod.metadata.uid)
        if known is not None and not known[0].is_nominated and _asked(known[0].pod.spec) == _asked(pod.spec):
            if known[1].name == node_name:
                if self.record is not None:
                    self.record(partial(setattr, known[0], "pod", known[0].pod))
                known[0].pod = pod  # as when a promise is confirmed
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
        """A pod that was placed, with what it takes."""
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
        """Record where a pod is, so that it can be restored."""
        if self.record is not None:
            placed, info = self._placed.get(uid) or (None, None)
            self.record(partial(self._restore, uid, placed, info.name if info is not None else ""))

    def _restore(self, uid: str, placed: PlacedPod | None, node_name: str) -> None:
        self._take_away(uid)
        if placed is not None:
            self._put(placed, node_name)

    @property
    def pods(self) -> int:
        """How many pods are placed."""
        return len(self._placed)

    def placed(self) -> Iterable[tuple[PlacedPod, NodeInfo]]:
        return self._placed.values()

    def named(self, nodes: int) -> Iterator[NodeInfo]:
        """The nodes of a bit set, by position."""
        return filter(None, compress(self.infos, _selectors(nodes)))

    def sample(self, nodes: int, start: int, limit: int) -> Sample:
        """Up to `limit` nodes of a bit set, the first one at `start` or after it, wrapping around at the end."""
        found = _some(nodes >> start, start, limit)
        if len(found) < limit:
            found += _some(nodes & ((1 << start) - 1), 0, limit - len(found))
        return Sample(self, found)

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
        """Forget a node that is gone with its last pod."""
        if info.node is None and not info.pods:
            del self._by_name[info.name]


def _some(nodes: int, first: int, limit: int) -> list[int]:
    """Up to `limit` members of a bit set that begins at the position `first`, lowest first.

    Where many nodes fit, the first few positions have that many members, and are spelled out; else members are sought.
    """
    piece = nodes & ((1 << 4 * limit) - 1)
    if piece.bit_count() < limit:
        return [first + at for at in islice(positions(nodes), limit)]
    return list(islice(compress(count(first), _selectors(piece)), limit))


# what counts on a node
_asked = attrgetter("containers", "initContainers", "resources", "overhead", "affinity", "priority")


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.podAntiAffinity is None:
        return ()
    return affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution


_DIGITS = bytes.maketrans(b"01", b"\0\1")


def _selectors(nodes: int) -> bytes:
    """A bit set as a byte for each position, lowest first: what `compress` walks over without Python's help."""
    return f"{nodes:b}"[::-1].encode().translate(_DIGITS)
