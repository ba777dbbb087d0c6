"""`SchedulerCore`: the scheduler as a state machine.

Input is changes of cluster objects; output is decisions about pods.

The core does no I/O and never waits. Its driver sets `now`, applies changes, takes the next pod, asks for a decision
and reports the result:

    core.apply(old, new)            an object was created, changed or deleted
    core.wake_for_devices()         wake the pods that changed devices may help
    waiting = core.next()           the pod to try next
    attempt = core.begin(waiting)
    decision = core.decide(attempt)
    core.place(...), core.refuse(...)    carry out a decision
    core.confirm(...), core.undo(...)    the placement was written, or writing failed

`dray.scheduler` drives the core from informers and writes its decisions; `ClusterModel` lets a simulation drive the
core.
Left out: the rules (`dray.verdicts`), the state of the cluster that rules read (`state`), the order of pods
(`queue`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from dray.api import podclaims
from dray.api.claim_access import PodClaims
from dray.api.claim_lifecycle import ClaimState, state_of
from dray.api.extended_resources import is_extended_resource_claim
from dray.api.gates import FeatureGates
from dray.api.reasons.groups import GroupCode, GroupProblem
from dray.api.reasons.nodes import PreemptionCode, SchedulingRule, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.core.attempt import Attempt, PlacementDecision, PreemptionPlan, Promise, Refused, Unfinished
from dray.core.configuration import SchedulerProfile
from dray.core.gang_scheduling import GangScheduling, is_helped_by_room
from dray.core.gangs import GroupKey
from dray.core.objects import ObjectLookup
from dray.core.preemption import Preemption
from dray.core.queue import FLUSH_AFTER, AlikePods, QueuePlace, SchedulingQueue, Waiting
from dray.core.state import (
    ANYTHING,
    CLASSES,
    DEVICE_RULES,
    NOTHING,
    ROOM,
    ROOM_AND_DEVICES,
    ROOM_RULES,
    ClusterState,
    Effect,
    spec_changed,
)
from dray.core.victims import priority_of
from dray.verdicts.demand import Candidate
from dray.verdicts.node_resources import with_claims

PATIENCE = 1.0  # seconds before a missing claim is reported on a pod; most claims are generated right after the pod
PATIENCE_AMID_CLAIMS = (
    10.0  # the same while other claims are generated: after a burst of pods it may be their turn soon
)


@dataclass
class _Progress:
    """Mutable scheduling state; a fork works on a copy."""

    queue: SchedulingQueue
    now: float = 0.0
    last: Candidate | None = None  # candidate of the last attempt; the next pod is often similar
    claim_came: float = -math.inf  # when a claim was last created
    held: set[str] = field(default_factory=set)  # uids of pods that are not tried until `release`
    unkept: list[Pod] = field(default_factory=list)
    promised: dict[str, int] = field(default_factory=dict)  # priorities of the pods that are being bound, by uid
    # By uid of a pod that found no victims: uids of less important pods that may be victims once they are bound.
    after_bindings: dict[str, set[str]] = field(default_factory=dict)
    has_device_news: bool = False  # whether devices changed since the last pass over waiting pods began
    look: Iterator[AlikePods] | None = None  # waiting pods that the current pass has not examined yet

    def copy(self) -> _Progress:
        has_news = self.has_device_news or self.look is not None  # the copy starts a new pass
        return replace(
            self,
            queue=self.queue.copy(),
            held=set(self.held),
            unkept=[],
            promised=dict(self.promised),
            after_bindings={uid: set(others) for uid, others in self.after_bindings.items()},
            has_device_news=has_news,
            look=None,
        )


class SchedulerCore:
    """Decides about the pods of its profiles.

    With `fallback`, pods whose scheduler name has no profile use the first profile; otherwise they are left to other
    schedulers. With `defers`, a long attempt is made in parts and returns `Unfinished` between them.
    """

    def __init__(
        self,
        objects: ObjectLookup,
        gates: FeatureGates,
        profiles: Mapping[str, SchedulerProfile],
        clock: Callable[[], float],
        *,
        fallback: bool = False,
        defers: bool = False,
        flush_after: float = FLUSH_AFTER,
        binding_timeouts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.objects = objects
        self._profiles = profiles
        self._fallback = next(iter(profiles.values())) if fallback else None
        self._progress = _Progress(SchedulingQueue(lambda: self._progress.now, flush_after=flush_after))
        self.queue = self._progress.queue
        self.state = ClusterState(objects, gates, clock, defers=defers, binding_timeouts=binding_timeouts)
        self.preemption = Preemption(objects, self.state)
        self.preempts = True  # whether pods that fit nowhere may preempt others
        self.gangs = GangScheduling(self)
        self._changes: dict[type[Any], Callable[[Any, Any], object]] = {
            Pod: self._change_pod,
            ResourceClaim: self._change_claim,
            PodGroup: self._change_group,
            Node: self._change_node,
        }

    @property
    def now(self) -> float:
        """The driver's time in seconds. The driver sets this value; the core itself never reads a clock."""
        return self._progress.now

    @now.setter
    def now(self, seconds: float) -> None:
        self._progress.now = seconds

    def profile_of(self, pod: Pod) -> SchedulerProfile | None:
        """Return the profile for a pod, or None for a pod of another scheduler."""
        return self._profiles.get(pod.spec.schedulerName) or self._fallback

    # -- changes

    def apply(self, old: Any, new: Any) -> None:
        """Update the state for an object that was created (`old` is None), changed, or deleted (`new` is None).

        Wakes the pods that the change may help.
        """
        self._changes.get(type(new if new is not None else old), self._change)(old, new)

    def _change(self, old: Any, new: Any) -> Effect:
        """Update the state for an object of any type, and wake the pods that the change may help.

        Returns the effect on refused pods.
        """
        effect = self.state.change(old, new)
        if effect is not NOTHING:
            self.wake(effect)
        return effect

    def _change_node(self, old: Node | None, new: Node | None) -> None:
        self._change(old, new)
        if new is None:
            self.gangs.abandon()

    def _change_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Update state, queue and gangs for a pod that was created, changed or deleted."""
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._change_pod(old, None)  # another pod of the same name
            old = None
        effect = self._change(old, new)
        if new is None or podclaims.is_finished(new):
            pod = new or old
            assert pod is not None
            self._leaves_queue(pod, counts=False)
            if effect.rules >= ROOM_RULES:
                self._left_claims(pod)
        elif new.spec.nodeName:
            self._leaves_queue(new, counts=True)
        elif self.profile_of(new) is not None:
            self._pod_waits(old, new)

    def _pod_waits(self, old: Pod | None, new: Pod) -> None:
        """Add or update a pod without a node in the queue.

        `old` is None for a new pod. `old` is `new` if a claim or group of the pod changed, not the pod itself.
        """
        if new.metadata.deletionTimestamp is not None:
            self._leaves_queue(new, counts=False)
            return
        is_ready = not self._lacks_something(new)
        has_turned = lacks_group = False
        if self.state.gangs.key_of(new) is not None:
            if not is_ready:
                self.gangs.abandon(new)
            has_turned = self.state.gangs.note(new, is_ready=is_ready)
            lacks_group = self.state.gangs.waits(new) is not None
        waiting = self.queue.add(new, gated=not is_ready or lacks_group)
        if lacks_group and self.state.nominations.clear(new.metadata.uid):
            self._progress.unkept.append(new)
            self.wake(ROOM_AND_DEVICES)
        if has_turned:
            self._recheck_group(new)
        if old is None or old is new:
            waiting.is_reported = False
        elif spec_changed(old, new) or old.metadata.labels != new.metadata.labels:
            self.queue.activate_one(new.metadata.uid)

    def _leaves_queue(self, pod: Pod, *, counts: bool) -> None:
        """Remove a pod from the queue. `counts` says whether the pod still counts towards minCount of its group."""
        uid, names_group = pod.metadata.uid, self.state.gangs.key_of(pod) is not None
        if names_group:
            self.gangs.abandon(pod)
        self.queue.remove(uid)
        self._progress.after_bindings.pop(uid, None)
        self._binding_ended(uid)
        if names_group and self.state.gangs.note(pod, is_ready=counts):
            self._recheck_group(pod)

    def _recheck_group(self, pod: Pod) -> None:
        """Recheck the other pods of a pod's group, because the group has reached or fallen below minCount."""
        self.gangs.abandon(pod)
        self._recheck(one for one in self._members(pod) if one.metadata.uid != pod.metadata.uid)

    def _members(self, pod: Pod) -> Iterable[Pod]:
        """Return the pods of the PodGroup that a pod names; empty if the pod names none."""
        key = self.state.gangs.key_of(pod)
        return [*self.objects.members(*key)] if key is not None else ()

    def _change_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Recheck and wake the pods of a PodGroup that was created, changed or deleted."""
        self._change(old, new)
        group = new or old
        assert group is not None
        if old is not None and new is not None and old.spec == new.spec:
            return
        key = group.metadata.namespace, group.metadata.name
        self.gangs.abandon()
        if new is None:
            self.gangs.group_gone(key)
        members = [*self.objects.members(*key)]
        for pod in members:
            self.queue.activate_one(pod.metadata.uid)  # the group may require less now
        self._recheck(members)

    def _lacks_something(self, pod: Pod) -> bool:
        """Whether a pod may not be tried because of scheduling gates, `hold`, or a missing claim or PodGroup.

        Whether the group has enough pods is not checked here.
        """
        if pod.spec.schedulingGates or pod.metadata.uid in self._progress.held:
            return True
        return self.state.devices.missing_for(pod) is not None

    def _left_claims(self, pod: Pod) -> None:
        """Recheck the pods that share an allocated but now unreserved claim with a pod that left its node."""
        namespace = pod.metadata.namespace
        for use in self.objects.uses(pod) if podclaims.has_claims(pod) else ():
            claim = self.objects.claim(namespace, use.claim) if use.claim else None
            if claim is not None and state_of(claim) is ClaimState.ALLOCATED:
                self._recheck(self.objects.consumers(namespace, claim.metadata.name))

    def _change_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Update the state for a claim that was created, changed or deleted, and recheck the pods that use it."""
        self._change(old, new)
        claim = new or old
        assert claim is not None
        if old is None:
            self._progress.claim_came = self._progress.now
        if (
            new is None
            and is_extended_resource_claim(claim)
            and (owner := podclaims.made_for(claim, "Pod")) is not None
        ):
            waiting = self.queue.get(owner.uid)  # a leftover claim may have blocked the pod
            if waiting is not None and waiting.refused_by & DEVICE_RULES:
                self.queue.activate_one(owner.uid)
        self._recheck(self.objects.consumers(claim.metadata.namespace, claim.metadata.name))

    def _recheck(self, pods: Iterable[Pod]) -> None:
        """Update these pods in the queue, because a claim or PodGroup of theirs changed.

        Wakes those refused for devices.
        """
        queue = self.queue
        for pod in pods:
            waiting = queue.get(pod.metadata.uid)
            if waiting is not None and waiting.place is not QueuePlace.TRYING:
                self._pod_waits(waiting.pod, waiting.pod)
                if waiting.refused_by & DEVICE_RULES:
                    queue.activate_one(pod.metadata.uid)

    def wake(self, effect: Effect) -> None:
        """Wake the pods that a change may help.

        Pods that changed devices may help are woken later by `wake_for_devices`.
        """
        if effect.rules:
            self.queue.activate_refused(None if effect is ANYTHING else effect.rules)
        self._progress.has_device_news |= effect.devices
        for uid in effect.nominated:
            self.queue.activate_one(uid)

    @property
    def has_device_news(self) -> bool:
        """Whether devices changed and `wake_for_devices` has not yet examined all waiting pods."""
        return self._progress.has_device_news or self._progress.look is not None

    def wake_for_devices(self, most: int | None = None) -> None:
        """Wake the waiting pods that can get more devices on some node than when they were refused.

        Pods with equal requests (`Attempt.alike`) are examined once and woken one after the other while devices
        remain. With
        `most`, only that many groups of equal pods are examined, and the next call continues with the other groups.
        """
        if self._progress.look is None:
            self.gangs.wake_for_devices()
            self._progress.has_device_news, self._progress.look = False, iter(self.queue.alike())
        looked = 0
        for pods in islice(self._progress.look, most):
            looked += 1
            first = pods.first()  # None if an earlier gang has taken these pods along
            if first is not None and (attempt := first.attempt) is not None:
                self.queue.activate_in_turn(pods, partial(self.state.devices.is_news, attempt))
        if most is None or looked < most:
            self._progress.look = None

    def hold(self, uid: str) -> None:
        """Keep a pod (by uid) from being tried until `release`. Call this before the pod is added."""
        self._progress.held.add(uid)

    def release(self, uid: str) -> None:
        """Let a held pod (by uid) be tried again."""
        self._progress.held.discard(uid)
        if (waiting := self.queue.get(uid)) is not None:
            self._pod_waits(waiting.pod, waiting.pod)

    def unreported(self) -> list[tuple[Pod, Unschedulable]]:
        """Return gated pods whose claim, PodGroup or fellow members have been missing for longer than usual, with the
        reason.

        Each pod is returned only once. Pods with scheduling gates are skipped. The list is empty if there are none.
        """
        found, progress = [], self._progress
        is_quiet = progress.claim_came + PATIENCE <= self.now
        since = self.now - (PATIENCE if is_quiet else PATIENCE_AMID_CLAIMS)
        incomplete: dict[GroupKey, GroupProblem] = {}
        for waiting in self.queue.gated():
            if waiting.is_reported or waiting.since > since:
                continue
            waiting.is_reported = True
            why = None if waiting.pod.spec.schedulingGates else self._lacking(waiting.pod, incomplete)
            if why is not None:
                found.append((waiting.pod, why))
        return found

    def _lacking(self, pod: Pod, incomplete: dict[GroupKey, GroupProblem]) -> Unschedulable | None:
        """Return what keeps a pod from being tried: a missing claim, PodGroup or group members; None if nothing does.

        `incomplete` caches the problems of gangs that are below minCount.
        """
        problem, group = self.state.devices.missing_for(pod), self.state.gangs.waits(pod)
        if group is not None and group.code is GroupCode.BELOW_MIN_COUNT:
            key = pod.metadata.namespace, group.group
            if key not in incomplete:
                incomplete[key] = self.state.gangs.mismatch_of(pod) or group
            group = incomplete[key]
        if group is not None and (problem is None or group.code is not GroupCode.BELOW_MIN_COUNT):
            return Unschedulable(len(self.state.table), group=group)
        return Unschedulable(len(self.state.table), problem=problem) if problem is not None else None

    # -- decisions

    def next(self) -> Waiting | None:
        """Take the next pod to try from the queue. Returns None if no pod can be tried now."""
        while (waiting := self.queue.pop()) is not None:
            if self.gangs.is_next(waiting):
                return waiting
        return None

    def begin(
        self, waiting: Waiting, *, among: int | None = None, preferred: str = "", is_terse: bool = False
    ) -> Attempt:
        """Begin an attempt to place a pod, or continue the unfinished one, and look up the pod's claims.

        Returns the attempt. `among` limits it to the nodes of a bit set (None: all nodes), `preferred` is the name of
        a node, and `is_terse` leaves out the explanation of a shortage of devices.
        """
        profile = self.profile_of(waiting.pod)
        assert profile is not None  # otherwise the pod would not be in the queue
        self._progress.last = candidate = Candidate(waiting.pod, self._progress.last)
        attempt = Attempt(
            candidate,
            PodClaims(waiting.pod),
            profile,
            failed_on=waiting.failed_on,
            among=among,
            preferred=preferred,
            is_terse=is_terse,
            may_preempt=self.preempts and profile.preempts,
        ).continuing(waiting.attempt)
        waiting.attempt = attempt
        return self.prepare(attempt)

    def trial_attempt(self, pod: Pod) -> Attempt:
        """Return a new attempt for a pod outside the queue, with claims as changed by the current trial."""
        profile = self.profile_of(pod)
        assert profile is not None  # otherwise another scheduler places the pod
        return self.prepare(Attempt(Candidate(pod), PodClaims(pod), profile, is_terse=True))

    def prepare(self, attempt: Attempt) -> Attempt:
        """Look up the claims of an attempt's pod.

        Returns the attempt with `claims`, or with `problem` if a claim is unusable.
        """
        claims = self.state.devices.claims_of(attempt.pod)
        if isinstance(claims, PodClaims):
            attempt.claims = claims
        else:
            attempt.problem = claims
        return attempt

    def decide(self, attempt: Attempt) -> PlacementDecision:
        """Decide about the pod of an attempt.

        Returns a node with devices, a refusal (perhaps with a preemption plan), or Unfinished.
        """
        if not self.state.nominations:  # usually there are none to lift, and a context costs more than this check
            return self._decide_or_preempt(attempt)
        with self.state.nominations.lifted(attempt.pod):
            return self._decide_or_preempt(attempt)

    def _decide_or_preempt(self, attempt: Attempt) -> PlacementDecision:
        decision = self._decide_nominated(attempt)
        if isinstance(decision, Refused) and self._may_preempt(attempt, decision):
            decision = self.preemption.after(attempt, decision)
            attempt.is_unfinished = isinstance(decision, Unfinished)
        return decision

    def _may_preempt(self, attempt: Attempt, refused: Refused) -> bool:
        """Whether to search for victims: if preemption is enabled and ending other pods could help this pod."""
        why = refused.why
        return attempt.may_preempt and is_helped_by_room(why)

    def _decide_nominated(self, attempt: Attempt) -> PlacementDecision:
        """Decide about a pod, trying its nominated node first and then all nodes.

        Returns Refused without trying any node if a claim is unusable or the pod conflicts with its PodGroup.
        """
        if attempt.problem is not None:
            why = Unschedulable(len(self.state.table), problem=attempt.problem)
            return Refused(why, frozenset({SchedulingRule.DYNAMIC_RESOURCES}))
        if (differs := self.state.gangs.differs(attempt.pod)) is not None:
            return Refused(Unschedulable(len(self.state.table), group=differs), frozenset())
        nomination = self.state.nominations.get(attempt.pod.metadata.uid)
        info = self.state.table.get(nomination.node) if nomination is not None else None
        if info is not None and info.node is not None:
            among, bit = attempt.among, 1 << info.position
            attempt.among = bit if among is None else among & bit
            decision = self.state.placement.decide(attempt)
            attempt.among = among
            if not isinstance(decision, Refused):
                return decision
        return self.state.placement.decide(attempt)

    def place(self, waiting: Waiting, promise: Promise) -> None:
        """Count a pod on its promised node and end the attempt."""
        assert waiting.attempt is not None
        pod, uid, nominations = waiting.pod, waiting.key, self.state.nominations
        demand = with_claims(pod, waiting.attempt.candidate.demand, promise.node_claims)
        waiting.nomination = nominations.get(uid)
        if waiting.nomination is not None:
            nominations.clear(uid)
            self.wake(ROOM_AND_DEVICES)
        self.state.table.place(pod, promise.node, demand)
        self._progress.promised[uid] = priority_of(pod)
        self.end(waiting)

    def refuse(self, waiting: Waiting, refused: Refused, pause: float = 0.0) -> None:
        """Put a refused pod back in the queue until a change may help.

        With `pause` (not 0), the pod is retried after that many seconds instead. If preemption cannot help, the pod
        loses its nomination.
        """
        assert waiting.attempt is not None
        if pause:
            self.queue.retry(waiting, pause, refused.rules)
        else:
            self.queue.refuse(waiting, refused.rules, waiting.attempt.alike)
        self.end(waiting)
        why = refused.why.preemption
        if why is not None and why.code is PreemptionCode.UNAVAILABLE:
            self.await_bindings(waiting)
            if self.state.nominations.clear(waiting.key):
                self.wake(ROOM_AND_DEVICES)

    def await_bindings(self, waiting: Waiting) -> None:
        """Retry a pod that found no victims once less important pods are bound, which may then be victims.

        Nothing happens if no less important pod is promised a node.
        """
        priority, progress = priority_of(waiting.pod), self._progress
        others = {uid for uid, other in progress.promised.items() if other < priority}
        if others:
            progress.after_bindings[waiting.key] = others

    def _binding_ended(self, uid: str) -> None:
        """Record that the binding of a pod has ended, and wake the pods that waited only for this binding."""
        progress = self._progress
        if progress.promised.pop(uid, None) is None:
            return
        for key, others in [*progress.after_bindings.items()]:
            others.discard(uid)
            if not others:
                del progress.after_bindings[key]
                self.queue.activate_one(key)

    def preempt(self, waiting: Waiting, plan: PreemptionPlan) -> list[Pod]:
        """Carry out a preemption plan: nominate the pod for the node, and hold it until `preempted` if there are
        victims.

        Returns the pods of lower priority that lose their nominations for the same node, empty if there are none.
        """
        nominations, uid = self.state.nominations, waiting.key
        others = [one.pod for one in nominations.on(plan.node) if priority_of(one.pod) < priority_of(waiting.pod)]
        for pod in others:
            nominations.clear(pod.metadata.uid)
        info = self.state.table.get(plan.node)
        leaving = self.preemption.victims.leaving([info]) if info is not None and not plan.victims else ()
        nominations.nominate(waiting.pod, plan.promise, plan.pods or leaving)
        for pod in others:
            self.queue.activate_one(pod.metadata.uid)
        if plan.victims:
            self.hold(uid)
            self.queue.add(waiting.pod, gated=True)
        return others

    def preempted(self, uid: str, spared: Iterable[Pod] = ()) -> None:
        """Record that the victims of a pod were evicted, except for the `spared` pods, whose eviction failed.

        Releases the pod, which `uid` names. If pods were spared, it backs off before it is tried.
        """
        left = frozenset(pod.metadata.uid for pod in spared)
        if left:
            self.state.nominations.spare(uid, left)
        self.release(uid)
        waiting = self.queue.get(uid)
        if left and waiting is not None and waiting.place is QueuePlace.ACTIVE:
            self.queue.retry(waiting)

    def expire_nominations(self) -> list[Pod]:
        """End nominations whose deadline has passed, and wake their pods.

        Returns these pods, and the pods that lost a nomination since the last call because their gang is incomplete.
        """
        late = [one.pod for one in self.state.expire_nominations()]
        if late:
            self.wake(ROOM_AND_DEVICES)
        for pod in late:
            self.queue.activate_one(pod.metadata.uid)
        unkept, self._progress.unkept = self._progress.unkept, []
        return [*late, *unkept]

    def fail(self, waiting: Waiting) -> None:
        """Record that an attempt ended with an error, and retry the pod after a backoff."""
        self.queue.retry(waiting)
        self.end(waiting)

    def end(self, waiting: Waiting) -> None:
        """End an attempt, whatever its result, and let pods that wait for its result continue."""
        if waiting.attempt is not None:
            waiting.attempt.end()
        self.queue.judged(waiting)

    def confirm(self, promise: Promise, written: Sequence[ResourceClaim]) -> None:
        """Record the claims that a binding has written."""
        devices = self.state.devices
        is_freed = [*map(devices.claim_written, written)]
        if promise.extended_resource_claim is not None:
            is_freed.append(devices.claim_made(promise.extended_resource_claim, written[-1]))
        self._progress.has_device_news |= any(is_freed)

    def undo(self, waiting: Waiting, promise: Promise, *, is_bound: bool = False) -> None:
        """Undo a placement that could not be written: withdraw the promised devices and retry the pod later.

        `is_bound` means that another scheduler has given the pod a node.
        """
        if not is_bound:
            self.state.table.unplace(waiting.key)
            self.wake(ROOM)
        self._binding_ended(waiting.key)
        self.forget(promise)
        if waiting.nomination is not None and self.queue.get(waiting.key) is waiting:
            self.state.nominations.restore(waiting.nomination)
        if promise.pending:
            self.wake(CLASSES)
        self.queue.retry(waiting)
        if self.queue.get(waiting.key) is waiting:
            self._pod_waits(waiting.pod, waiting.pod)  # gates the pod if one of its claims was deleted meanwhile

    def forget(self, promise: Promise) -> None:
        """Withdraw the promised devices of a promise that will not be written."""
        for claim in promise.pending:
            self.state.devices.ledger.forget(claim.metadata.uid)
