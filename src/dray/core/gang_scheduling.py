"""Joint attempts of gangs in the queue: who is tried together, one gang at a time, and what follows from a decision.

While a gang is decided about, its pods are taken out of the queue. Other gangs wait until the decision is made: two that
took devices by turns could keep each other out. Single pods go on. An attempt is given up when a pod of the gang, its
group or a node goes. Left out: the decision (`gang_attempt`).
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

GANG = Effect(ROOM.rules | CLASSES.rules, devices=True)  # what a gang holds that is given up


class GangScheduling:
    """The gangs of one scheduler core."""

    def __init__(self, core: SchedulerCore) -> None:
        self._core = core
        self._gangs = core.state.gangs
        self._placement = GangPlacement(core.state, core.trial_attempt)
        self._preemption = GroupPreemption(core.state, core.preemption, core.trial_attempt)
        self._preempting: set[GroupKey] = set()  # gangs whose victims are being told to go
        self._current: GangAttempt | None = None
        self._later: list[Waiting] = []  # pods of gangs that come after the current one
        self._pauses: dict[GroupKey, float] = {}  # when a gang that took long may be tried again
        self._refused: dict[GroupKey, str] = {}  # a pod of each gang that waits for devices

    def is_next(self, waiting: Waiting) -> bool:
        """Whether a pod that was taken from the queue can be tried now; if not, it is put aside."""
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
            return False
        pause = self._pauses.get(key, 0.0) - self._core.now
        if pause > 0:
            self._core.queue.retry(waiting, pause, waiting.refused_by)
            return False
        return True

    def begin(self, waiting: Waiting, among: int | None = None) -> GangAttempt | None:
        """The joint attempt that a pod is part of, begun or to be gone on with; None for a pod that is placed by itself."""
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
        """The places that are kept for pods of a gang."""
        known = (self._core.state.nominations.get(waiting.key) for waiting in gang.members)
        return [one for one in known if one is not None]

    def decide(self, gang: GangAttempt) -> GangDecision:
        """Go on with an attempt: where the pods go, why they wait, or that its turn is over."""
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
        """Whether to look for victims; not where no end of others helps, or another decision is tried out."""
        profile = self._core.profile_of(gang.leader.pod)
        may = self._core.preempts and profile is not None and profile.preempts
        return may and gang.problem is None and is_helped_by_room(refused.why)

    def place(self, gang: GangAttempt, promise: GangPromise) -> None:
        """Count the pods of a gang on the nodes that they were promised."""
        for member in promise.placed:
            self._core.place(member.waiting, member.promise)
        for waiting, refused in promise.refused:
            self._core.refuse(waiting, refused)
        self._end(gang)

    def refuse(self, gang: GangAttempt, refused: GangRefused, pause: float = 0.0) -> None:
        """Let a gang wait for a change that may help it, and for so many seconds in any case."""
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
        """Follow the plan of a refusal: keep the places, and do not try the gang again before `preempted`.

        Returns the pods of lower priority that lose the places which were kept for them on these nodes.
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
        """The victims of a gang were told to go, except for those that are spared since that failed."""
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
        """An attempt ended with an error: try the gang again after a while."""
        self._placement.give_up(gang)
        for waiting in gang.members:
            self._core.fail(waiting)
        self._end(gang)

    def undo(self, members: list[PlacedMember], *, is_bound: bool = False) -> None:
        """The placements of these pods could not be written: give back what was promised."""
        for member in members:
            self._core.undo(member.waiting, member.promise, is_bound=is_bound)
        self._core.wake(GANG)

    def abandon(self, pod: Pod | None = None) -> None:
        """Give an attempt up and begin anew: the cluster changed under it. With a pod, only if it is part of the attempt."""
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
        """Forget what is known of a group."""
        self._pauses.pop(key, None)
        self._refused.pop(key, None)
        self._preempting.discard(key)

    def wake_for_devices(self) -> None:
        """Try the gangs again that wait for devices: some became free, and only a joint attempt can tell whether that helps."""
        refused, self._refused = self._refused, {}
        for uid in refused.values():
            self._core.queue.activate_one(uid)

    def _end(self, gang: GangAttempt) -> None:
        if self._current is gang:
            self._current = None
        later, self._later = self._later, []
        for waiting in later:
            self._core.queue.put_back(waiting)


def is_helped_by_room(why: Unschedulable) -> bool:
    """Whether the end of other pods may help; not where pods of a group differ, or what is in the way goes without."""
    differs = why.group is not None and why.group.code in WRONG
    return why.wrong is None and not differs and not why.deallocates and not why.deletes
