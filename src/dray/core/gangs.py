"""Which pods belong to a gang, whether enough of them exist to be tried, and whether they may be placed together.

A gang is a PodGroup whose pods are placed completely or not at all (`schedulingPolicy.gang.minCount`). A group with
the basic policy and a topology constraint is also placed jointly, as a gang with minCount 1. Left out: which nodes
the pods get (`gang_attempt`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from dray.api.gates import FeatureGates
from dray.api.podclaims import group_name, is_finished
from dray.api.reasons.groups import GroupCode, GroupProblem
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.core.journal import RecordInverse
from dray.core.objects import ObjectLookup

GroupKey = tuple[str, str]  # namespace and name
DEFAULT_POLICY = "PreemptLowerPriority"


class Gangs:
    """Tracks for each PodGroup the pods that are ready to be tried or have a node."""

    def __init__(self, objects: ObjectLookup, gates: FeatureGates) -> None:
        self._objects = objects
        self._is_enabled = gates.served("GenericWorkload")
        self._has_topology = gates.served("TopologyAwareWorkloadScheduling")
        self._has_policy = gates.served("PodGroupPreemptionPolicy")
        self._ready: dict[GroupKey, set[str]] = {}
        self.record: RecordInverse | None = None  # receives the inverse of each change during a trial

    def key_of(self, pod: Pod) -> GroupKey | None:
        """Return namespace and name of the PodGroup that a pod names; None if it names none or groups are disabled."""
        spec = pod.spec
        if not self._is_enabled or (spec.schedulingGroup is None and spec.workloadRef is None):  # as most
            return None
        name = group_name(pod)
        return (pod.metadata.namespace, name) if name else None

    def note(self, pod: Pod, *, is_ready: bool) -> bool:
        """Record whether a pod counts towards minCount of its group.

        Returns True if the group has reached minCount by this, or has fallen below minCount, and False otherwise,
        also for a pod without a group.
        """
        key = self.key_of(pod)
        if key is None:
            return False
        uid = pod.metadata.uid
        if (uid in self._ready.get(key, ())) == is_ready:
            return False
        before = self._count(key)
        self._set(key, uid, is_ready=is_ready)
        if self.record is not None:
            self.record(partial(self._set, key, uid, is_ready=not is_ready))
        least = min_count(self._objects.group_of(pod))
        return (before >= least) != (self._count(key) >= least)

    def _count(self, key: GroupKey) -> int:
        return len(self._ready.get(key, ()))

    def _set(self, key: GroupKey, uid: str, *, is_ready: bool) -> None:
        ready = self._ready.setdefault(key, set())
        if is_ready:
            ready.add(uid)
        else:
            ready.discard(uid)
        if not ready:
            del self._ready[key]

    def waits(self, pod: Pod) -> GroupProblem | None:
        """Return why a pod may not be tried yet: its PodGroup is missing or is a gang with fewer pods than minCount.

        Returns None if nothing keeps it from being tried.
        """
        key = self.key_of(pod)
        if key is None:
            return None
        group = self._objects.group_of(pod)
        if group is None:
            return GroupProblem(GroupCode.GROUP_UNKNOWN, key[1])
        least, found = min_count(group), self._count(key)
        if found < least and self.is_gang(group):
            return GroupProblem(GroupCode.BELOW_MIN_COUNT, key[1], wanted=least, found=found)
        return None

    @staticmethod
    def is_gang(group: PodGroup) -> bool:
        """Whether the group has the gang scheduling policy, so that minCount applies."""
        return group.spec.schedulingPolicy.gang is not None

    def joint_group(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup whose pods must be placed together with this pod; None for a pod placed on its own.

        The group is a gang or has a topology constraint.
        """
        group = self._objects.group_of(pod) if self.key_of(pod) is not None else None
        return group if group is not None and (self.is_gang(group) or self.topology_keys(group)) else None

    def topology_keys(self, group: PodGroup) -> tuple[str, ...]:
        """Return the node labels whose values must be equal for the nodes of all pods of a group.

        The result is () if the group has no constraint, or if the feature is off.
        """
        constraints = group.spec.schedulingConstraints
        if constraints is None or not self._has_topology:
            return ()
        return tuple(one.key for one in constraints.topology)

    def members(self, group: PodGroup) -> list[Pod]:
        """Return the pods of a group that have not finished."""
        found = self._objects.members(group.metadata.namespace, group.metadata.name)
        return [pod for pod in found if not is_finished(pod)]

    def mismatch_of(self, pod: Pod) -> GroupProblem | None:
        """Return the first difference between the pods of a pod's group that prevents joint scheduling, or None.

        Pods of other schedulers are included. Also returns None if the pod has no PodGroup.
        """
        group = self._objects.group_of(pod)
        return self.mismatch(group, self.members(group)) if group is not None else None

    def differs(self, pod: Pod) -> GroupProblem | None:
        """Return the first value of a pod that conflicts with its PodGroup, or None if there is none or no PodGroup.

        For groups whose pods are placed one by one.
        """
        group = self._objects.group_of(pod) if self.key_of(pod) is not None else None
        return self.mismatch(group, (pod,)) if group is not None else None

    def mismatch(self, group: PodGroup, pods: Sequence[Pod]) -> GroupProblem | None:
        """Return the first difference between the pods and their group, or None.

        Compares scheduler names, priorities and preemption policies.
        """
        name, wanted = group.metadata.name, group.spec
        schedulers = _distinct(f'"{pod.spec.schedulerName}"' for pod in pods)
        if len(schedulers) > 1:
            return GroupProblem(GroupCode.SCHEDULER_NAMES, name, one=schedulers[0], other=schedulers[1])
        priorities = _distinct(str(pod.spec.priority or 0) for pod in pods)
        if wanted.priority is not None:
            priorities = [
                *dict.fromkeys([*(one for one in priorities if one != str(wanted.priority)), str(wanted.priority)])
            ]
        if len(priorities) > 1:
            return GroupProblem(GroupCode.PRIORITIES, name, one=priorities[0], other=priorities[1])
        policies = _distinct(pod.spec.preemptionPolicy or DEFAULT_POLICY for pod in pods)
        if self._has_policy:
            policy = wanted.preemptionPolicy or DEFAULT_POLICY
            other = next((one for one in policies if one != policy), None)
            return GroupProblem(GroupCode.GROUP_POLICY, name, one=other, other=policy) if other else None
        if len(policies) > 1:
            return GroupProblem(GroupCode.POLICIES, name, one=policies[0], other=policies[1])
        return None


def min_count(group: PodGroup | None) -> int:
    """Return the number of pods of a group that must be placed together: minCount of a gang, or else 1.

    None, no group, also means 1.
    """
    gang = group.spec.schedulingPolicy.gang if group is not None else None
    return gang.minCount if gang is not None else 1


def _distinct(values: Iterable[str]) -> list[str]:
    """Return the distinct values in order of first appearance."""
    return [*dict.fromkeys(values)]
