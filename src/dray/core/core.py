"""`SchedulerCore`: the scheduler as a state machine. Changes of the cluster go in, decisions about pods come out.

The core neither waits nor writes. Whoever drives it sets `now`, applies changes, takes the next pod, asks for a decision
and reports what became of it:

    core.apply(old, new)            an object came, changed or went
    core.wake_for_devices()         wake the pods that changed devices may help
    waiting = core.next()           the pod to try next
    attempt = core.begin(waiting)
    decision = core.decide(attempt)
    core.place(...), core.refuse(...)    follow a decision
    core.confirm(...), core.undo(...)    a placement was written, or could not be

`dray.scheduler` drives it from informers and writes its decisions; `ClusterModel` lets a simulation drive it. Left out:
the rules (`dray.verdicts`), the picture that they are asked about (`state`), the order of pods (`queue`).
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

PATIENCE = 1.0  # seconds before a pod is told that a claim is missing: most are generated right after the pod
PATIENCE_AMID_CLAIMS = (
    10.0  # the same while other claims are generated: after a burst of pods it may be their turn soon
)


@dataclass
class _Progress:
    """What changes as pods are tried; a fork works on a copy."""

    queue: SchedulingQueue
    now: float = 0.0
    last: Candidate | None = None  # the pod that was tried last: the next is often like it
    claim_came: float = -math.inf  # when a claim was last created
    held: set[str] = field(default_factory=set)  # uids of pods that are not tried before they are released
    unkept: list[Pod] = field(default_factory=list)  # pods that lost their nominations with their gang
    promised: dict[str, int] = field(default_factory=dict)  # pods that are being bound, by uid, with their priorities
    # Pods that found no victims: those less important that were being bound, and may be victims once they are.
    after_bindings: dict[str, set[str]] = field(default_factory=dict)
    has_device_news: bool = False  # devices changed since the last look at waiting pods began
    look: Iterator[AlikePods] | None = None  # the pods that a look has still to go through

    def copy(self) -> _Progress:
        has_news = self.has_device_news or self.look is not None  # a look in the copy begins anew
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
    """Places the pods of its profiles.

    With `fallback`, a pod whose scheduler name has no profile is treated by the first profile; otherwise it is left to
    its own scheduler. With `defers`, an attempt that takes long is made in parts (`Unfinished`).
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
        self.state = ClusterState(objects, gates, clock, defers=defers, binding_timeouts=binding_timeouts)
        self.preemption = Preemption(objects, self.state)
        self.preempts = True  # whether pods that fit nowhere may make others end
        self.gangs = GangScheduling(self)

    @property
    def now(self) -> float:
        """The time of the driver's clock, in seconds; the core never reads a clock."""
        return self._progress.now

    @now.setter
    def now(self, seconds: float) -> None:
        self._progress.now = seconds

    @property
    def queue(self) -> SchedulingQueue:
        return self._progress.queue

    def profile_of(self, pod: Pod) -> SchedulerProfile | None:
        """The profile for a pod; None for a pod of another scheduler."""
        return self._profiles.get(pod.spec.schedulerName) or self._fallback

    # -- changes

    def apply(self, old: Any, new: Any) -> None:
        """Take note that an object came (no `old`), changed, or went (no `new`), and wake the pods that it may help."""
        if isinstance(old, Pod) and isinstance(new, Pod) and old.metadata.uid != new.metadata.uid:
            self.apply(old, None)  # another pod of the same name
            old = None
        effect = self.state.change(old, new)
        if effect is not NOTHING:
            self.wake(effect)
        match new if new is not None else old:
            case Pod():
                self._pod_changed(old, new, has_left_node=effect.rules >= ROOM_RULES)
            case ResourceClaim() as claim:
                if old is None:
                    self._progress.claim_came = self.now
                self._claim_changed(claim, gone=new is None)
            case PodGroup() as group if old is None or new is None or old.spec != new.spec:
                self._group_changed(group, gone=new is None)
            case Node() if new is None:
                self.gangs.abandon()

    def _pod_changed(self, old: Pod | None, new: Pod | None, *, has_left_node: bool) -> None:
        if new is None or podclaims.is_finished(new):
            pod = new or old
            assert pod is not None
            self._leaves_queue(pod, counts=False)
            if has_left_node:
                self._left_claims(pod)
        elif new.spec.nodeName:
            self._leaves_queue(new, counts=True)
        elif self.profile_of(new) is not None:
            self._pod_waits(old, new)

    def _pod_waits(self, old: Pod | None, new: Pod) -> None:
        """A pod that has no node came or changed, or something that it cannot be without did (`old` is `new`)."""
        if new.metadata.deletionTimestamp is not None:
            self._leaves_queue(new, counts=False)
            return
        is_ready = not self._lacks_something(new)
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
        """A pod waits no more; `counts` says whether it is still one of its group, with a node."""
        self.gangs.abandon(pod)
        self.queue.remove(pod.metadata.uid)
        self._progress.after_bindings.pop(pod.metadata.uid, None)
        self._binding_ended(pod.metadata.uid)
        if self.state.gangs.note(pod, is_ready=counts):
            self._recheck_group(pod)

    def _recheck_group(self, pod: Pod) -> None:
        """Enough pods of a pod's group are there now, or no more."""
        self.gangs.abandon(pod)
        self._recheck(one for one in self._members(pod) if one.metadata.uid != pod.metadata.uid)

    def _members(self, pod: Pod) -> Iterable[Pod]:
        key = self.state.gangs.key_of(pod)
        return [*self.objects.members(*key)] if key is not None else ()

    def _group_changed(self, group: PodGroup, *, gone: bool) -> None:
        key = group.metadata.namespace, group.metadata.name
        self.gangs.abandon()
        if gone:
            self.gangs.group_gone(key)
        members = [*self.objects.members(*key)]
        for pod in members:
            self.queue.activate_one(pod.metadata.uid)  # it may ask for less now
        self._recheck(members)

    def _lacks_something(self, pod: Pod) -> bool:
        """Whether a pod may not be tried for its own sake: it has scheduling gates, is held, or lacks a claim or its group."""
        if pod.spec.schedulingGates or pod.metadata.uid in self._progress.held:
            return True
        return self.state.devices.missing_for(pod) is not None

    def _left_claims(self, pod: Pod) -> None:
        """Try pods again that cannot run where a claim is allocated, now that one user less keeps it there."""
        namespace = pod.metadata.namespace
        for use in self.objects.uses(pod) if podclaims.has_claims(pod) else ():
            claim = self.objects.claim(namespace, use.claim) if use.claim else None
            if claim is not None and state_of(claim) is ClaimState.ALLOCATED:
                self._recheck(self.objects.consumers(namespace, claim.metadata.name))

    def _claim_changed(self, claim: ResourceClaim, *, gone: bool) -> None:
        if gone and is_extended_resource_claim(claim) and (owner := podclaims.made_for(claim, "Pod")) is not None:
            waiting = self.queue.get(owner.uid)  # a claim that was left over may have kept it out
            if waiting is not None and waiting.refused_by & DEVICE_RULES:
                self.queue.activate_one(owner.uid)
        self._recheck(self.objects.consumers(claim.metadata.namespace, claim.metadata.name))

    def _recheck(self, pods: Iterable[Pod]) -> None:
        """A claim of these pods, or their group, came, went or changed."""
        for pod in pods:
            waiting = self.queue.get(pod.metadata.uid)
            if waiting is not None and waiting.place is not QueuePlace.TRYING:  # else the change is our own
                self._pod_waits(waiting.pod, waiting.pod)
                if waiting.refused_by & DEVICE_RULES:
                    self.queue.activate_one(pod.metadata.uid)

    def wake(self, effect: Effect) -> None:
        """Try the pods again that a change may help; whom devices help is looked up by `wake_for_devices`."""
        if effect.rules:
            self.queue.activate_refused(None if effect is ANYTHING else effect.rules)
        self._progress.has_device_news |= effect.devices
        for uid in effect.nominated:
            self.queue.activate_one(uid)

    @property
    def has_device_news(self) -> bool:
        """Whether devices changed and not all pods were looked at that this may help."""
        return self._progress.has_device_news or self._progress.look is not None

    def wake_for_devices(self, most: int | None = None) -> None:
        """Wake pods to which nodes can give more devices than when they were refused, while they can.

        Of thousands that wait, many ask for the same (`Attempt.alike`): they are looked at once, and woken one after the
        other. With `most`, so many kinds of pods are looked at, and the next call goes on with the others.
        """
        if self._progress.look is None:
            self.gangs.wake_for_devices()
            self._progress.has_device_news, self._progress.look = False, iter(self.queue.alike())
        looked = 0
        for pods in islice(self._progress.look, most):
            looked += 1
            first = pods.first()  # none where a group before took them along
            if first is not None and (attempt := first.attempt) is not None:
                self.queue.activate_in_turn(pods, partial(self.state.devices.is_news, attempt))
        if most is None or looked < most:
            self._progress.look = None

    def hold(self, uid: str) -> None:
        """Do not try a pod before it is released. To be called before the pod comes."""
        self._progress.held.add(uid)

    def release(self, uid: str) -> None:
        """Let a pod be tried that was held."""
        self._progress.held.discard(uid)
        if (waiting := self.queue.get(uid)) is not None:
            self._pod_waits(waiting.pod, waiting.pod)

    def unreported(self) -> list[tuple[Pod, Unschedulable]]:
        """Pods that lack a claim, their group or other pods of it for longer than usual, each with what is missing. Tells each once."""
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
        """What keeps a pod from being tried: a claim, its group, or other pods of that. `incomplete`: gangs seen before."""
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
        """The pod to try next, or None while no pod can be tried."""
        while (waiting := self.queue.pop()) is not None:
            if self.gangs.is_next(waiting):
                return waiting
        return None

    def begin(
        self, waiting: Waiting, *, among: int | None = None, preferred: str = "", is_terse: bool = False
    ) -> Attempt:
        """Begin an attempt to place a pod, or go on with the one that is not over: find out about its claims."""
        profile = self.profile_of(waiting.pod)
        assert profile is not None  # or it would not be in the queue
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
        """An attempt outside the queue, for a trial: its claims are as the trial supposes them to be."""
        profile = self.profile_of(pod)
        assert profile is not None  # or it would not be ours to place
        return self.prepare(Attempt(Candidate(pod), PodClaims(pod), profile, is_terse=True))

    def prepare(self, attempt: Attempt) -> Attempt:
        """Look up the claims of an attempt's pod. Returns the attempt."""
        claims = self.state.devices.claims_of(attempt.pod)
        if isinstance(claims, PodClaims):
            attempt.claims = claims
        else:
            attempt.problem = claims
        return attempt

    def decide(self, attempt: Attempt) -> PlacementDecision:
        """A node and devices for the pod of an attempt, or why there are none."""
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
        """Whether to look for victims; not where what is in the way goes without."""
        why = refused.why
        return attempt.may_preempt and is_helped_by_room(why)

    def _decide_nominated(self, attempt: Attempt) -> PlacementDecision:
        """Decide for the node that is kept for a pod if that fits, or else for any."""
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
        """Count a pod on the node that it was promised."""
        assert waiting.attempt is not None
        demand = with_claims(waiting.pod, waiting.attempt.candidate.demand, promise.node_claims)
        waiting.nomination = self.state.nominations.get(waiting.key)
        if self.state.nominations.clear(waiting.key):
            self.wake(ROOM_AND_DEVICES)
        self.state.table.place(waiting.pod, promise.node, demand)
        self._progress.promised[waiting.key] = priority_of(waiting.pod)
        self.end(waiting)

    def refuse(self, waiting: Waiting, refused: Refused, pause: float = 0.0) -> None:
        """Let a pod wait for a change that may help it, or, with a `pause`, for so many seconds."""
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
        """Try a pod that found no victims again once the less important pods that are being bound may be victims."""
        priority, progress = priority_of(waiting.pod), self._progress
        others = {uid for uid, other in progress.promised.items() if other < priority}
        if others:
            progress.after_bindings[waiting.key] = others

    def _binding_ended(self, uid: str) -> None:
        progress = self._progress
        if progress.promised.pop(uid, None) is None:
            return
        for key, others in [*progress.after_bindings.items()]:
            others.discard(uid)
            if not others:
                del progress.after_bindings[key]
                self.queue.activate_one(key)

    def preempt(self, waiting: Waiting, plan: PreemptionPlan) -> list[Pod]:
        """Follow the plan of a refusal: keep the place, and do not try the pod again before `preempted`.

        Returns the pods of lower priority that lose the place which was kept for them on that node.
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
        """The victims of a pod were told to go, except for those that are spared since that failed."""
        left = frozenset(pod.metadata.uid for pod in spared)
        if left:
            self.state.nominations.spare(uid, left)
        self.release(uid)
        waiting = self.queue.get(uid)
        if left and waiting is not None and waiting.place is QueuePlace.ACTIVE:
            self.queue.retry(waiting)

    def expire_nominations(self) -> list[Pod]:
        """End the nominations whose deadline has passed; their pods are tried again.

        Returns these pods, and those whose nomination has ended since the last call because their gang is not complete.
        """
        late = [one.pod for one in self.state.expire_nominations()]
        if late:
            self.wake(ROOM_AND_DEVICES)
        for pod in late:
            self.queue.activate_one(pod.metadata.uid)
        unkept, self._progress.unkept = self._progress.unkept, []
        return [*late, *unkept]

    def fail(self, waiting: Waiting) -> None:
        """An attempt ended with an error: try the pod again after a while."""
        self.queue.retry(waiting)
        self.end(waiting)

    def end(self, waiting: Waiting) -> None:
        """An attempt is over, whatever it came to: pods that wait for its result may go on."""
        if waiting.attempt is not None:
            waiting.attempt.end()
        self.queue.judged(waiting)

    def confirm(self, promise: Promise, written: Sequence[ResourceClaim]) -> None:
        """Take note of the claims that a binding wrote."""
        devices = self.state.devices
        is_freed = [*map(devices.claim_written, written)]
        if promise.extended_resource_claim is not None:
            is_freed.append(devices.claim_made(promise.extended_resource_claim, written[-1]))
        self._progress.has_device_news |= any(is_freed)

    def undo(self, waiting: Waiting, promise: Promise, *, is_bound: bool = False) -> None:
        """A placement could not be written: give back what was promised, and try the pod again after a while.

        `is_bound`: the pod has got a node all the same, from another scheduler.
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
            self._pod_waits(waiting.pod, waiting.pod)  # a claim that went meanwhile keeps it out until it is back

    def forget(self, promise: Promise) -> None:
        """Give back the devices of a promise that nobody will keep."""
        for claim in promise.pending:
            self.state.devices.ledger.forget(claim.metadata.uid)
