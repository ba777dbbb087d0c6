"""Joint attempts of gangs in the queue: which pods are tried together, one gang at a time, and how decisions are
carried out.

While a gang is being decided, its pods are out of the queue and other gangs wait, since two gangs that take devices
in turn could block each other. Single pods continue. An attempt is abandoned when a pod of the gang, its PodGroup or
a node goes away. Left out: the decision (`gang_attempt`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dray.api.reasons.groups import WRONG, GroupCode, GroupProblem
from dray.api.reasons.nodes import PreemptionCode, Unschedulable
from dray.api.types.core import Pod
from dray.core.gang_attempt import (
    GangAttempt,
    GangDecision,
    GangPlacement,
    GangPromise,
    GangRefused,
    GroupPreemptionPlan,
    PlacedMember,
    domains_of,
)
from dray.core.gangs import GroupKey, min_count
from dray.core.group_preemption import GroupPreemption
from dray.core.nominations import Nomination
from dray.core.queue import QueuePlace, Waiting
from dray.core.state import CLASSES, ROOM, ROOM_AND_DEVICES, Effect
from dray.core.victims import priority_of

if TYPE_CHECKING:
    from dray.core.core import SchedulerCore

GANG = Effect(ROOM.rules | CLASSES.rules, devices=True)  # effect of withdrawing a gang's promises


class GangScheduling:
    """Gangs of one scheduler core."""

    def __init__(self, core: SchedulerCore) -> None:
        self._core = core
        self._gangs = core.state.gangs
        self._placement = GangPlacement(core.state, core.trial_attempt)
        self._preemption = GroupPreemption(core.state, core.preemption, core.trial_attempt)
        self._preempting: set[GroupKey] = set()  # gangs whose victims are being evicted
        self._current: GangAttempt | None = None
        self._later: list[Waiting] = []  # pods of gangs that wait for the current gang
        self._pauses: dict[GroupKey, float] = {}  # earliest time of the next attempt of a slow gang
        self._refused: dict[GroupKey, str] = {}  # uid of one pod of each refused gang

    def is_next(self, waiting: Waiting) -> bool:
        """Whether a popped pod can be tried now. If not, the pod is set aside or returned to the queue.

        A pod that is placed on its own always can. A pod of a gang cannot while another gang is tried, while victims
        of its gang end, and during a pause of its gang.
        """
        key = self._gangs.key_of(waiting.pod)
        if key is None or self._gangs.joint_group(waiting.pod) is None:
            return True
        if self._current is not None:
            if self._current.leader is waiting:
                return True
            self._later.append(waiting)
            return False
        if key in self._preempting:
            self._core.queue.refuse(waiting, ())
            self._core.queue.judged(waiting)
            return False
        pause = self._pauses.get(key, 0.0) - self._core.now
        if pause > 0:
            self._core.queue.retry(waiting, pause, waiting.refused_by)
            self._core.queue.judged(waiting)
            return False
        return True

    def begin(self, waiting: Waiting, among: int | None = None) -> GangAttempt | None:
        """Begin or continue the joint attempt for the gang of a pod, and take the gang's other pods from the queue.

        Returns None for a pod that is placed on its own. `among` limits the attempt to the nodes of a bit set (None:
        all nodes).
        """
        if self._current is not None and self._current.leader is waiting:
            return self._current
        group = self._gangs.joint_group(waiting.pod)
        if group is None:
            return None
        pods = self._gangs.members(group)
        members, bound = [waiting], [pod for pod in pods if self._has_node(pod)]
        for pod in pods:
            other = self._core.queue.get(pod.metadata.uid)
            if other is not None and other is not waiting and self._core.queue.take(other):
                members.append(other)
        keys = {member.key for member in members}
        self._later = [one for one in self._later if one.key not in keys]
        members.sort(key=lambda member: member.pod.metadata.creationTimestamp or "")
        key = group.metadata.namespace, group.metadata.name
        gang = self._current = GangAttempt(key, group, waiting, members, bound, among)
        gang.problem = self._gangs.mismatch(group, pods)
        if gang.problem is None and len(members) < gang.needed:
            least, found = min_count(group), len(members) + len(bound)
            gang.problem = GroupProblem(GroupCode.BELOW_MIN_COUNT, key[1], wanted=least, found=found)
        gang.is_hasty = any(one.victims for one in self._nominated(gang))
        gang.domains = [*domains_of(self._core.state, self._gangs.topology_keys(group), bound, among)]
        self._refused.pop(key, None)
        return gang

    def _has_node(self, pod: Pod) -> bool:
        return bool(pod.spec.nodeName or self._core.state.table.node_of(pod.metadata.uid))

    def _nominated(self, gang: GangAttempt) -> list[Nomination]:
        """Return the nominations of the gang's pods, empty if none is nominated."""
        known = (self._core.state.nominations.get(waiting.key) for waiting in gang.members)
        return [one for one in known if one is not None]

    def decide(self, gang: GangAttempt) -> GangDecision:
        """Continue an attempt. Returns a promise, a refusal (perhaps with a preemption plan), or Unfinished."""
        state = self._core.state
        gang.is_stale = gang.stamp != state.stamp
        with state.nominations.lifted(*(waiting.pod for waiting in gang.members)):
            decision: GangDecision = gang.verdict or self._placement.decide(gang)
            if isinstance(decision, GangRefused) and self._may_preempt(gang, decision):
                gang.verdict = decision
                decision = self._preemption.after(gang, decision)
        gang.stamp = state.stamp
        return decision

    def _may_preempt(self, gang: GangAttempt, refused: GangRefused) -> bool:
        """Whether to search for victims: if preemption is enabled and ending other pods could help the gang."""
        profile = self._core.profile_of(gang.leader.pod)
        may = self._core.preempts and profile is not None and profile.preempts
        return may and gang.problem is None and is_helped_by_room(refused.why)

    def place(self, gang: GangAttempt, promise: GangPromise) -> None:
        """Count the pods of a gang on their promised nodes, refuse its other pods, and end the attempt."""
        for member in promise.placed:
            self._core.place(member.waiting, member.promise)
        for waiting, refused in promise.refused:
            self._core.refuse(waiting, refused)
        self._end(gang)

    def refuse(self, gang: GangAttempt, refused: GangRefused, pause: float = 0.0) -> None:
        """Put the pods of a refused gang back in the queue. The gang waits at least `pause` seconds."""
        self._pauses[gang.key] = self._core.now + pause
        self._refused[gang.key] = gang.leader.key
        for waiting in gang.members:
            self._core.queue.refuse(waiting, refused.rules)
            self._core.end(waiting)
        self._end(gang)
        why = refused.why.preemption
        if why is not None and why.code is PreemptionCode.UNAVAILABLE:
            self._core.await_bindings(gang.leader)
        if why is not None and why.code is not PreemptionCode.GROUP_WAITING:
            cleared = [self._core.state.nominations.clear(waiting.key) for waiting in gang.members]
            if any(cleared):
                self._core.wake(ROOM_AND_DEVICES)

    def preempt(self, gang: GangAttempt, plan: GroupPreemptionPlan) -> list[Pod]:
        """Carry out a preemption plan: nominate the gang's pods. With victims, the gang is not tried until
        `preempted`.

        Returns the pods of lower priority that lose their nominations for the same nodes, empty if there are none.
        """
        nominations, core = self._core.state.nominations, self._core
        nodes = {member.promise.node for member in plan.placed}
        lesser = [one for one in nominations if priority_of(one.pod) < priority_of(gang.leader.pod)]
        others = [one.pod for one in lesser if one.node in nodes]
        for pod in others:
            nominations.clear(pod.metadata.uid)
        victims = plan.pods or plan.leaving
        chosen = {member.waiting.key for member in plan.placed}
        for waiting in gang.members:
            if waiting.key not in chosen:
                nominations.clear(waiting.key)
        for member in plan.placed:
            known = nominations.get(member.waiting.key)
            if known is not None and not plan.victims:
                nominations.keep(member.waiting.pod, member.promise)
            else:
                nominations.nominate(member.waiting.pod, member.promise, victims)
        for pod in others:
            core.queue.activate_one(pod.metadata.uid)
        if plan.victims:
            self._preempting.add(gang.key)
        return others

    def preempted(self, gang: GangAttempt, spared: Iterable[Pod] = ()) -> None:
        """Record that the victims of a gang were evicted, except for the `spared` pods, whose eviction failed.

        Wakes the gang.
        """
        self._preempting.discard(gang.key)
        left = frozenset(pod.metadata.uid for pod in spared)
        for waiting in gang.members if left else ():
            self._core.state.nominations.spare(waiting.key, left)
        there = (self._core.queue.get(waiting.key) for waiting in gang.members)
        first = next((waiting for waiting in there if waiting is not None), None)
        if first is not None and left and first.place is QueuePlace.UNSCHEDULABLE and self._core.queue.take(first):
            self._core.queue.retry(first)
        elif first is not None:
            self._core.queue.activate_one(first.key)

    def fail(self, gang: GangAttempt) -> None:
        """Record that an attempt ended with an error, and retry the gang after a backoff."""
        self._placement.give_up(gang)
        for waiting in gang.members:
            self._core.fail(waiting)
        self._end(gang)

    def undo(self, members: list[PlacedMember], *, is_bound: bool = False) -> None:
        """Undo placements that could not be written: withdraw the promised devices and retry the pods."""
        for member in members:
            self._core.undo(member.waiting, member.promise, is_bound=is_bound)
        self._core.wake(GANG)

    def abandon(self, pod: Pod | None = None) -> None:
        """Abandon the current attempt because the cluster changed, and requeue its pods.

        With `pod`, only if the pod is part of the attempt.
        """
        gang = self._current
        if gang is None or (pod is not None and not any(w.key == pod.metadata.uid for w in gang.members)):
            return
        self._current = None
        if self._placement.give_up(gang):
            self._core.wake(GANG)
        for waiting in gang.members:
            waiting.attempt = None
            self._core.queue.put_back(waiting)
        self._end(gang)

    def group_gone(self, key: GroupKey) -> None:
        """Forget the state kept for a deleted PodGroup."""
        self._pauses.pop(key, None)
        self._refused.pop(key, None)
        self._preempting.discard(key)

    def wake_for_devices(self) -> None:
        """Wake all refused gangs after devices became free, since only a joint attempt can tell whether this helps."""
        refused, self._refused = self._refused, {}
        for uid in refused.values():
            self._core.queue.activate_one(uid)

    def _end(self, gang: GangAttempt) -> None:
        """End the current attempt and requeue the pods of gangs that waited for it."""
        if self._current is gang:
            self._current = None
        later, self._later = self._later, []
        for waiting in later:
            self._core.queue.put_back(waiting)


def is_helped_by_room(why: Unschedulable) -> bool:
    """Whether ending other pods could help.

    False if pods of a group differ, or if the pod waits for the deallocation or deletion of a claim.
    """
    differs = why.group is not None and why.group.code in WRONG
    return why.wrong is None and not differs and not why.deallocates and not why.deletes
