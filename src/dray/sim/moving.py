"""Which pods must move so that others fit: the smallest number of moves, each tried in a simulated cluster.

The search looks for a node that fits a pod once other pods have left, and for places for those; a pod that fits
nowhere may in turn displace others. It uses iterative deepening: all plans with one move are tried before those with
two, so the first plan found has the fewest moves, and among these, less important pods are tried first. A plan is a
sequence: each pod has its new place before the next one leaves. Nothing is changed; everything happens in forks.

Only pods that are recreated may move: they have a controller other than a DaemonSet, their disruption budget allows
one eviction, and they belong to no gang, are not protected by an annotation, and are not more important than the pod
they move for. Left out: moving a pod twice, and making a scheduler choose the planned places (other nodes are
cordoned meanwhile).
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
_SEQUENCES = 8  # sequences verified per number of moves
_PODS = 12  # movable pods considered per node, least important first


class PodMove(msgspec.Struct, frozen=True):
    """Move of a pod, given as namespace/name, from one node to another."""

    pod: str
    source: str
    target: str


class MovePlan(msgspec.Struct, frozen=True):
    """Moves in order, and the resulting places of the pods that the moves are for."""

    moves: tuple[PodMove, ...]
    pods: tuple[PodOutcome, ...] = ()


class MoveSearch(msgspec.Struct, frozen=True):
    """Result of a search. If `plan` is None, `complete` says that no plan with the allowed number of moves exists."""

    plan: MovePlan | None
    complete: bool


class OutOfTries(Exception):
    """The search has used all its tries."""


class MovePlanner:
    """Plans moves in a simulated cluster. `tries` limits how often a pod is tentatively placed."""

    def __init__(self, cluster: Cluster, tries: int = 5000) -> None:
        self._cluster = cluster
        self._left = tries
        self._moves: list[PodMove] = []
        self._moved: set[str] = set()
        self._priority = 0
        self._is_cut = False
        self._is_out = False

    def plan(self, pods: Sequence[Pod], most: int = MOST_MOVES) -> MoveSearch:
        """Find the smallest plan after which these waiting pods all have a node."""
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
        """Return the first sequences of exactly `moves` moves after which the pods have a node.

        Other waiting pods are ignored.
        """
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
        """Yield once for each way to place all pods, with the moves left, while the pods are placed in the fork."""
        if not pods:
            yield budget
            return
        for _, left in self._ways(pods[0], budget, self._put):
            yield from self._placed(pods[1:], left)

    def _relocated(self, pods: Sequence[Pod], budget: int) -> Iterator[int]:
        """Yield once for each way to move these pods elsewhere one by one, with the moves left.

        The moves hold while the generator is suspended. `budget` is the number of moves that are allowed.
        """
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
        """Yield the node and the moves left for each way to put a pod on a node, while the pod is there in the fork.

        A pod that moves stays on its old node until its new place is free.
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
        """Return nodes with minimal sets of pods whose leaving lets the pod fit, smallest and least important first.

        At most `budget` pods of a node leave. Raises OutOfTries if no tries are left.
        """
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
        """Whether the pod fits on a node after these pods have left.

        The cluster is unchanged afterwards. Raises OutOfTries if no tries are left.
        """
        with self._cluster.fork() as trial:
            for one in leaving:
                trial.remove(Pod, one.metadata.name, one.metadata.namespace)
            if trial.current(pod) is not None:
                trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)
                pod = unplaced(pod)
            return self._put(pod, node)

    # -- single tries

    def _put(self, pod: Pod, node: str) -> bool:
        """Add a pod and let the scheduler place it on this node only. Returns whether it was placed.

        Call within a fork. Raises OutOfTries if no tries are left. Returns False if the node does not exist.
        """
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
        """Move a pod to another node. Returns whether it was placed there. Call within a fork.

        Returns False if the pod is gone or already on the node. Raises OutOfTries if no tries are left.
        """
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
        """Return the pods of a node that may move, least important first, at most `_PODS`.

        Pods that already move and pods of a higher priority than the lowest of the placed pods are left out.
        """
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
        """Return a sort key for the disruption of moving pods: priority, number of devices, names."""
        priorities = [*map(priority_of, pods)]
        devices = sum(1 for pod in pods for _ in devices_of(self._cluster.model.objects, pod))
        return max(priorities), sum(priorities), devices, sorted(map(name_of, pods))

    # -- verification

    def _verified(self, moves: tuple[PodMove, ...], pods: Sequence[Pod]) -> MovePlan | None:
        """Carry out the moves in order, then add all waiting pods.

        Returns the plan if the pods then have nodes, or None.
        """
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
    """Context manager: fork without waiting pods. Gives the pods that waited."""
    with cluster.fork() as trial:
        waiting = [pod for pod in trial.all(Pod) if trial.is_waiting(pod.metadata.uid)]
        for pod in waiting:
            trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        yield [unplaced(pod) for pod in waiting]


def _within(less: Iterable[Pod], more: Iterable[Pod]) -> bool:
    """Whether all pods of the first group are in the second."""
    return {*map(name_of, less)} <= {*map(name_of, more)}


def may_move(pod: Pod, budgets: Iterable[PodDisruptionBudget], group: PodGroup | None) -> bool:
    """Whether a pod would be recreated elsewhere after an eviction, and may be evicted now.

    False for terminating pods, pods of DaemonSets or nodes, pods without a controller, pods annotated as unsafe to
    evict, and pods of gangs or unknown groups.
    """
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
    """Whether disruption budgets allow the pod's eviction. A pod with several budgets cannot be evicted.

    `budgets` may include budgets of other pods.
    """
    found = [*budgets_of(pod, budgets)]
    return not found or (len(found) == 1 and found[0].status.disruptionsAllowed > 0)
