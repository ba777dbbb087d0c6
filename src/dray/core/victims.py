"""Pods that may be preempted for a pod, in order of importance, and the evictions that would violate a disruption
budget.

A victim is one pod, or all placed pods of a PodGroup with `disruptionMode.all`. No I/O. Left out: which victims would
help (`preemption`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from dray.api.disruption import budgets_of
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.scheduling import PodGroup
from dray.core.objects import ObjectLookup
from dray.verdicts.nodes import NodeInfo, NodeTable, PlacedPod

if TYPE_CHECKING:
    from dray.core.nominations import Nominations

FindBudgets = Callable[[str], Iterable[PodDisruptionBudget]]  # by namespace


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


@dataclass(frozen=True)
class Victim:
    """Pods that are preempted together or not at all. `pods` is never empty."""

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False

    @property
    def key(self) -> str:
        """The uid of the first pod, which is unique among victims."""
        return self.pods[0].metadata.uid

    @cached_property
    def started(self) -> float:
        """Earliest start time of the pods; infinity if none has started."""
        return min(map(_started, self.pods))

    @property
    def importance(self) -> tuple[object, ...]:
        """Sort key that puts the most important victim first."""
        return -self.priority, not self.is_group, -len(self.pods), self.started, self.key


def _started(pod: Pod) -> float:
    return parse_timestamp(pod.status.startTime) if pod.status.startTime else inf


class VictimFinder:
    """Finds the possible victims for a pod or group of a given priority."""

    def __init__(self, objects: ObjectLookup, table: NodeTable, nominations: Nominations) -> None:
        self._objects = objects
        self._table = table
        self._nominations = nominations

    def on(self, infos: Iterable[NodeInfo], priority: int) -> list[Victim]:
        """Return the victims with lower priority and a pod on one of these nodes, most important first.

        Pods that are promised a node but not bound yet are excluded, as are terminating pods.
        """
        found: dict[str, Victim] = {}
        seen: set[str] = set()
        for info in infos:
            for placed in info.pods.values():
                if placed.pod.metadata.uid not in seen and (victim := self._victim(placed)) is not None:
                    seen.update(pod.metadata.uid for pod in victim.pods)
                    if victim.priority < priority:
                        found[victim.key] = victim
        return sorted(found.values(), key=lambda victim: victim.importance)

    def leaving(self, infos: Iterable[NodeInfo]) -> list[Pod]:
        """Return the preempted pods on these nodes that are expected to end soon. Overdue pods are excluded."""
        pods = (placed.pod for info in infos for placed in info.pods.values())
        known = self._nominations
        return [pod for pod in pods if known.is_leaving(pod) and not known.is_overdue(pod)]

    def _victim(self, placed: PlacedPod) -> Victim | None:
        """Return the victim that a placed pod belongs to, or None if the pod cannot be preempted.

        The victim is the pod alone, or all pods of its PodGroup that can be preempted if the group goes as a whole.
        """
        pod = placed.pod
        if not self._may_go(placed):
            return None
        group = self._objects.group_of(pod)
        if group is None:
            return Victim((pod,), priority_of(pod))
        priority = group.spec.priority if group.spec.priority is not None else priority_of(pod)
        if not _goes_as_a_whole(group):
            return Victim((pod,), priority)
        members = self._objects.members(group.metadata.namespace, group.metadata.name)
        known = (self._table.placed_pod(member.metadata.uid) for member in members)
        whole = [other.pod for other in known if other is not None and self._may_go(other)]
        return Victim(tuple(sorted(whole, key=lambda pod: pod.metadata.uid)), priority, is_group=True)

    def _may_go(self, placed: PlacedPod) -> bool:
        """Whether a pod is bound and not already being preempted."""
        return bool(placed.pod.spec.nodeName) and not self._nominations.is_leaving(placed.pod)


def _goes_as_a_whole(group: PodGroup) -> bool:
    """Whether the pods of a PodGroup must be preempted together."""
    mode = group.spec.disruptionMode
    return mode is not None and mode.all is not None


def violations(victims: Sequence[Victim], find: FindBudgets) -> dict[str, int]:
    """Count the pods whose eviction would violate a disruption budget if all victims were evicted in this order.

    Returns the count by key of the victim, without victims that violate none. Pods whose eviction was already granted
    do not count.
    """
    allowed: dict[tuple[str, str], int] = {}
    found: dict[str, int] = {}
    for victim in victims:
        count = 0
        for pod in victim.pods:
            is_over = False
            for budget in budgets_of(pod, find(pod.metadata.namespace)):
                if pod.metadata.name in budget.status.disruptedPods:
                    continue
                name = budget.metadata.namespace, budget.metadata.name
                allowed[name] = left = allowed.get(name, budget.status.disruptionsAllowed) - 1
                is_over |= left < 0
            count += is_over
        if count:
            found[victim.key] = count
    return found
