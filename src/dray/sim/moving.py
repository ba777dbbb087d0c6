"""Which pods have to move so that others fit: the smallest number of moves, each tried in a simulated cluster.

The search looks for a node that takes a pod once some pods have left it, and for places where those fit; a pod that fits
nowhere may in turn make others move. It deepens: all plans with one move are looked at before those with two, so the first
plan found is a smallest one, and among the plans with as few moves those with less important pods come first. A plan is a
sequence: each pod has its place before the next one leaves. Nothing is changed: all of it happens in forks.

Only pods that come again move: those with a controller other than a DaemonSet, whose disruption budget allows one eviction,
that belong to no gang, that no annotation protects, and that are not more important than the pod they move for. Left out:
moving a pod twice, and how to make a scheduler choose the places of a plan (the other nodes are cordoned meanwhile).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import combinations

import msgspec

from dray.api import podclaims
from dray.api.disruption import budgets_of
from dray.api.naming import name_of
from dray.api.types.core import Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.scheduling import PodGroup
from dray.core.victims import priority_of
from dray.sim.cluster import Cluster
from dray.sim.copies import is_daemon, unplaced
from dray.sim.uses import devices_of
from dray.sim.what_if import PodOutcome, is_placed, outcomes

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
MOST_MOVES = 4
TryPlace = Callable[[Pod, str], bool]
_SEQUENCES = 8  # that are verified of those with equally many moves
_PODS = 12  # of a node that may move; the least important ones


class PodMove(msgspec.Struct, frozen=True):
    """A pod, written namespace/name, that leaves one node and comes again on another."""

    pod: str
    source: str
    target: str


class MovePlan(msgspec.Struct, frozen=True):
    """Moves in the order in which they are made, and what has a place afterwards."""

    moves: tuple[PodMove, ...]
    pods: tuple[PodOutcome, ...] = ()


class MoveSearch(msgspec.Struct, frozen=True):
    """What a search found. Without a plan: `complete` says that there is none with as many moves as were allowed."""

    plan: MovePlan | None
    complete: bool


class OutOfTries(Exception):
    """The search took as many tries as it may."""


class MovePlanner:
    """Plans moves in one simulated cluster; `tries` bounds how often a pod is put somewhere on trial."""

    def __init__(self, cluster: Cluster, tries: int = 5000) -> None:
        self._cluster = cluster
        self._left = tries
        self._moves: list[PodMove] = []
        self._moved: set[str] = set()
        self._priority = 0
        self._is_cut = False
        self._is_out = False

    def plan(self, pods: Sequence[Pod], most: int = MOST_MOVES) -> MoveSearch:
        """The smallest plan after which pods, of which each is in the cluster and waits, all have a node."""
        self._priority = min(map(priority_of, pods), default=0)
        for moves in range(most + 1):
            for found in self._sequences(pods, moves):
                checked = self._verified(found, pods)
                if checked is not None:
                    return MoveSearch(checked, True)
            if self._is_out:
                break
        return MoveSearch(None, not (self._is_cut or self._is_out))

    def _sequences(self, pods: Sequence[Pod], moves: int) -> list[tuple[PodMove, ...]]:
        """The first sequences of so many moves after which pods have a node, in a cluster in which nothing else waits."""
        names = [*map(name_of, pods)]
        found: dict[tuple[PodMove, ...], None] = {}
        try:
            with _undisturbed(self._cluster) as waiting:
                wanted = [pod for pod in waiting if name_of(pod) in names]
                with closing(self._placed(wanted, moves)) as ways:
                    for _ in ways:
                        if len(self._moves) == moves:
                            found[tuple(self._moves)] = None
                        if len(found) == _SEQUENCES:
                            break
        except OutOfTries:
            self._is_out, self._left = True, 0
        return [*found]

    # -- the search

    def _placed(self, pods: Sequence[Pod], budget: int) -> Generator[int, None, None]:
        """Ways to give all pods a node with so many moves; gives how many moves are left, while the pods are there."""
        if not pods:
            yield budget
            return
        for _, left in self._ways(pods[0], budget, self._put):
            yield from self._placed(pods[1:], left)

    def _relocated(self, pods: Sequence[Pod], budget: int) -> Iterator[int]:
        """Ways to move pods elsewhere, one after the other."""
        if not pods:
            yield budget
            return
        pod, name = pods[0], name_of(pods[0])
        if budget < len(pods):
            return
        self._moved.add(name)
        try:
            for target, left in self._ways(pod, budget - 1, self._moves_to):
                self._moves.append(PodMove(name, pod.spec.nodeName, target))
                try:
                    yield from self._relocated(pods[1:], left)
                finally:
                    self._moves.pop()
        finally:
            self._moved.discard(name)

    def _ways(self, pod: Pod, budget: int, put: TryPlace) -> Iterator[tuple[str, int]]:
        """Ways to put a pod on a node; gives the node and the moves left, while it is there.

        A pod that moves stays where it is until its place is free.
        """
        for node in self._nodes():
            with self._cluster.fork():
                if put(pod, node):
                    yield node, budget
        for node, leaving in self._rooms(pod, budget) if budget > 0 else ():
            for left in self._relocated(leaving, budget):
                with self._cluster.fork():
                    if put(pod, node):
                        yield node, left

    def _rooms(self, pod: Pod, budget: int) -> list[tuple[str, tuple[Pod, ...]]]:
        """Nodes with the smallest sets of pods without which they take a pod, the least important ones first."""
        found: list[tuple[str, tuple[Pod, ...]]] = []
        for node in self._nodes():
            movable = self._movable(node)
            if not movable or not self._fits_without(pod, node, movable):
                continue
            fitting: list[tuple[Pod, ...]] = []
            for number in range(1, min(budget, len(movable)) + 1):
                for some in combinations(movable, number):
                    is_smallest = not any(_within(less, some) for less in fitting)
                    if is_smallest and self._fits_without(pod, node, some):
                        fitting.append(some)
            found += [(node, some) for some in fitting]
        return sorted(found, key=lambda room: (len(room[1]), self._disturbance(room[1])))

    def _fits_without(self, pod: Pod, node: str, leaving: Iterable[Pod]) -> bool:
        with self._cluster.fork() as trial:
            for one in leaving:
                trial.remove(Pod, one.metadata.name, one.metadata.namespace)
            if trial.current(pod) is not None:
                trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)
                pod = unplaced(pod)
            return self._put(pod, node)

    # -- one try

    def _put(self, pod: Pod, node: str) -> bool:
        """Let a pod come, and the scheduler choose among one node. To be called in a fork."""
        self._left -= 1
        if self._left < 0:
            raise OutOfTries
        cluster = self._cluster
        info = cluster.model.state.table.get(node)
        if info is None:
            return False
        among, cluster.among = cluster.among, 1 << info.position
        try:
            cluster.submit(pod)
            cluster.settle()
        finally:
            cluster.among = among
        return is_placed(cluster, pod)

    def _moves_to(self, pod: Pod, node: str) -> bool:
        """Whether a pod that leaves its node comes again on another one. To be called in a fork."""
        if node == pod.spec.nodeName:
            return False
        current = self._cluster.current(pod)
        if current is None:
            return False
        self._cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        return self._put(unplaced(current), node)

    def _nodes(self) -> list[str]:
        return [node.metadata.name for node in self._cluster.all(Node)]

    def _movable(self, node: str) -> list[Pod]:
        """The pods of a node that may move, the least important ones first."""
        budgets = [*self._cluster.all(PodDisruptionBudget)]
        pods = [
            pod
            for pod in self._cluster.pods_on(node)
            if name_of(pod) not in self._moved
            and priority_of(pod) <= self._priority
            and may_move(pod, budgets, self._cluster.model.objects.group_of(pod))
        ]
        self._is_cut = self._is_cut or len(pods) > _PODS
        return sorted(pods, key=lambda pod: self._disturbance([pod]))[:_PODS]

    def _disturbance(self, pods: Sequence[Pod]) -> tuple[object, ...]:
        """Sorts those first whose end matters least: by priority, then by how many devices they have, then by name."""
        priorities = [*map(priority_of, pods)]
        devices = sum(1 for pod in pods for _ in devices_of(self._cluster.model.objects, pod))
        return max(priorities), sum(priorities), devices, sorted(map(name_of, pods))

    # -- the proof

    def _verified(self, moves: tuple[PodMove, ...], pods: Sequence[Pod]) -> MovePlan | None:
        """Make the moves one after the other, then let everything come that waits; the plan, if the pods get a node."""
        self._left += len(moves)
        with _undisturbed(self._cluster) as waiting:
            for move in moves:
                namespace, _, name = move.pod.partition("/")
                there = self._cluster.get(Pod, name, namespace)
                if there is None or not self._moves_to(there, move.target):
                    return None
            self._cluster.add(*waiting)
            self._cluster.settle()
            if not all(is_placed(self._cluster, pod) for pod in pods):
                return None
            return MovePlan(moves, outcomes(self._cluster, pods))


@contextmanager
def _undisturbed(cluster: Cluster) -> Iterator[list[Pod]]:
    """A fork in which no pod waits; gives the pods that waited."""
    with cluster.fork() as trial:
        waiting = [pod for pod in trial.all(Pod) if trial.is_waiting(pod.metadata.uid)]
        for pod in waiting:
            trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        yield [unplaced(pod) for pod in waiting]


def _within(less: Iterable[Pod], more: Iterable[Pod]) -> bool:
    return {*map(name_of, less)} <= {*map(name_of, more)}


def may_move(pod: Pod, budgets: Iterable[PodDisruptionBudget], group: PodGroup | None) -> bool:
    """Whether a pod comes again elsewhere when it is evicted, and may be evicted now."""
    if pod.metadata.deletionTimestamp is not None or is_daemon(pod):
        return False
    if not any(owner.controller for owner in pod.metadata.ownerReferences):
        return False
    if pod.metadata.annotations.get(SAFE_TO_EVICT) == "false":
        return False
    if podclaims.group_name(pod) and (group is None or group.spec.schedulingPolicy.gang is not None):
        return False
    return may_be_evicted(pod, budgets)


def may_be_evicted(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> bool:
    """Whether the disruption budget of a pod allows its eviction; one that has several cannot be evicted."""
    found = [*budgets_of(pod, budgets)]
    return not found or (len(found) == 1 and found[0].status.disruptionsAllowed > 0)
