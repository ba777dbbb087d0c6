"""Cluster in memory under virtual time: objects in, placements out, decided by the scheduler's own code.

No API server is used and no real time passes: a pod that runs for an hour ends when the clock is advanced beyond it.
Queue, rules, device search and scores are those of `dray.scheduler`; writes of a binding are applied at once. The
same objects and calls give the same placements. Left out: pods created by controllers of Deployments and Jobs, and
the duration of writes in a real cluster.
"""

from __future__ import annotations

import heapq
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_access import PodClaims
from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.naming import name_of
from dray.api.podclaims import Sharing
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeVerdict, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import (
    ResourceClaim,
    ResourceClaimTemplate,
)
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Tree, Wire
from dray.core.attempt import PlacementDecision, PreemptionPlan, Promise, Refused, Unfinished
from dray.core.configuration import Configuration
from dray.core.gang_attempt import GangAttempt, GangPromise, GroupPreemptionPlan
from dray.core.model import ClusterModel
from dray.core.queue import Waiting
from dray.core.state import NEIGHBOUR_RULES
from dray.node.played import SECONDS
from dray.sim.claims import SimulatedClaims
from dray.sim.uses import DeviceUse, devices_of
from dray.sim.watching import Observer
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Judgement

W = TypeVar("W", bound=Wire)


class Explanation(msgspec.Struct, frozen=True):
    """State of a pod: its node and devices, or why it waits.

    `why` is the scheduler's last refusal, `problem` a problem with the pod's claims that excludes all nodes, and
    `verdicts` the
    current verdict of every node, rule by rule. `dray.api.reasons.wording` converts them to text.
    """

    node: str = ""
    devices: tuple[DeviceUse, ...] = ()
    why: Unschedulable | None = None
    problem: ClaimProblem | None = None
    verdicts: tuple[NodeVerdict, ...] = ()


class Cluster:
    """Simulated cluster. `now` is its clock in seconds; `observers` are notified of events."""

    def __init__(
        self,
        objects: Iterable[Wire | Tree] = (),
        *,
        gates: FeatureGates | None = None,
        configuration: Configuration | None = None,
        now: float = 0.0,
        preempts: bool = False,
    ) -> None:
        """With `preempts`, pods that fit nowhere preempt less important pods, which end at once."""
        self.gates = gates or FeatureGates()
        self.observers: list[Observer] = []
        self.among: int | None = None  # bit set of the nodes that pods may use; None for all nodes
        self.preferred: Callable[[Pod], str] = lambda pod: ""  # name of the node to prefer among equally good nodes
        self.is_terse = False  # whether refusals omit the node that came closest, to save time
        self.model = ClusterModel(self.gates, (configuration or Configuration()).profiles)
        self.model.now = now
        self.model.preempts = preempts
        self._claims = SimulatedClaims(self.model, Sharing.of(self.gates), self._named)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._made = 0  # number of uids assigned here
        self._why: dict[str, Unschedulable] = {}  # pod uid → why the pod waits
        self.preempted: dict[str, str] = {}  # preempted pod → preemptor
        self.add(*objects)

    @property
    def now(self) -> float:
        return self.model.now

    # -- objects

    def add(self, *objects: Wire | Tree) -> None:
        """Add or replace objects, typed or as manifest data. Pods without a node start to wait.

        Pods with a node run there, finished pods are ignored.
        """
        for one in objects:
            typed = object_of(one, self.gates) if isinstance(one, dict) else one
            if isinstance(typed, Pod):
                self.submit(typed)
            else:
                self._put(self._named(typed))

    def remove(self, type_: type[Wire], name: str, namespace: str = "") -> None:
        """Delete an object and, for a node, its pods. Raises KeyError if the object does not exist."""
        found = self.model.objects.get(type_, name, namespace)
        if found is None:
            raise KeyError(f"{type_.__name__} {namespace + '/' if namespace else ''}{name}")
        if isinstance(found, Pod):
            self._end(found)
            return
        if isinstance(found, Node):
            for pod in self.pods_on(name):
                self._end(pod)
        self.model.drop(found)
        self._wake_for_devices()

    def get(self, type_: type[W], name: str, namespace: str = "") -> W | None:
        return self.model.objects.get(type_, name, namespace)

    def current(self, one: W) -> W | None:
        """Return the current object with the same type, namespace and name, or None.

        None if no such object exists now.
        """
        meta: ObjectMeta = cast(Any, one).metadata
        return self.model.objects.get(type(one), meta.name, meta.namespace)

    def all(self, type_: type[W]) -> Iterator[W]:
        return self.model.objects.all(type_)

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods counted on a node, without nominated pods.

        `node` is a name; empty if there is no such node.
        """
        info = self.model.state.table.get(node)
        return [one.pod for one in info.pods.values() if not one.is_nominated] if info is not None else []

    def waiting(self) -> dict[str, Unschedulable]:
        """Return the pods that were tried and refused, by namespace/name, with the reason."""
        names = {pod.metadata.uid: name_of(pod) for pod in self.all(Pod)}
        return {names[uid]: why for uid, why in self._why.items() if uid in names}

    # -- events

    def submit(self, pod: Pod | Tree, *, at: float | None = None, runs: float | None = None) -> None:
        """Add a pod, now or at time `at`. The pod ends after `runs` seconds on its node, or as its annotation says.

        Times are in seconds of the simulation. Finished pods are ignored.
        """
        typed = object_of(pod, self.gates) if isinstance(pod, dict) else pod
        assert isinstance(typed, Pod)
        if at is not None and at > self.now:
            self._later(at, lambda: self._come(typed, runs))
        else:
            self._come(typed, runs)

    def is_waiting(self, uid: str) -> bool:
        """Whether a pod is in the queue, without a node.

        False for pods that have a node or do not exist.
        """
        return self.model.queue.get(uid) is not None

    def hold(self, uid: str) -> None:
        """Keep a pod from being tried until `release`. Call this before the pod is added.

        `uid` is the UID of the pod.
        """
        self.model.hold(uid)

    def release(self, uid: str) -> None:
        """Let a held pod be tried."""
        self.model.release(uid)

    def settle(self) -> int:
        """Try all pods that can be tried now. Returns the number of pods that got a node."""
        placed = 0
        while (waiting := self.model.next()) is not None:
            if (gang := self.model.gangs.begin(waiting, self.among)) is not None:
                placed += self._settle_gang(gang)
                continue
            decision = self._decide(waiting)
            if isinstance(decision, Promise):
                self._bind(decision)
                self.model.end(waiting)
                placed += 1
            else:
                self._refuse(waiting, decision)
        return placed

    def _settle_gang(self, gang: GangAttempt) -> int:
        """Decide about a gang and apply the decision. Returns the number of its pods that got a node."""
        decision = self.model.gangs.decide(gang)
        while isinstance(decision, Unfinished):
            decision = self.model.gangs.decide(gang)
        if isinstance(decision, GangPromise):
            self.model.gangs.place(gang, decision)
            for member in decision.placed:
                self._bind(member.promise)
            for waiting, refused in decision.refused:
                self._note_refused(waiting, refused.why)
            return len(decision.placed)
        self.model.gangs.refuse(gang, decision)
        for waiting in gang.members:
            self._note_refused(waiting, decision.why)
        if decision.plan is not None:
            self._preempt_for(gang, decision.plan)
        for claim in decision.to_release:
            self.free(claim, "")
        return 0

    def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`, processing due events in order."""
        self.run(self.now + seconds)

    def run(self, until: float | None = None) -> None:
        """Process events in order until the given time, or until no event is left.

        `until` is in seconds of the simulation; the clock then stands at this time.
        """
        self.settle()
        while (due := self.next_event()) is not None and (until is None or due <= until):
            self.model.now = max(self.now, due)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self.settle()
        if until is not None:
            self.model.now = max(self.now, until)

    def preview(self, uid: str) -> Promise | None:
        """Return what a waiting pod would be promised now, or None. Does not change the cluster.

        None if the pod does not wait or cannot be placed. `uid` is the UID of the pod.
        """
        waiting, start = self.model.queue.get(uid), self.model.state.placement.start
        if waiting is None:
            return None
        attempt = waiting.attempt
        decision = self._decide(waiting)
        waiting.attempt, self.model.state.placement.start = attempt, start
        if not isinstance(decision, Promise):
            return None
        self.model.forget(decision)
        return decision

    def explain(self, name: str, namespace: str = "default") -> Explanation:
        """Return the state of a pod and why it waits. Raises KeyError if the pod does not exist."""
        pod = self.get(Pod, name, namespace)
        if pod is None:
            raise KeyError(f"Pod {namespace}/{name}")
        if pod.spec.nodeName:
            return Explanation(pod.spec.nodeName, tuple(devices_of(self.model.objects, pod)))
        why, problem = self._why.get(pod.metadata.uid), self.problem_of(pod)
        return Explanation(why=why, problem=problem, verdicts=tuple(self.verdicts(pod)))

    def verdicts(self, pod: Pod) -> list[NodeVerdict]:
        """Return the verdict of every node for a pod, rule by rule.

        Empty if a problem with its claims excludes all nodes.
        """
        judged = self.judge(pod, thorough=True)
        return self.model.state.placement.rules.verdicts(judged) if judged is not None else []

    def judge(self, pod: Pod, *, thorough: bool = False) -> Judgement | None:
        """Apply the rules to all nodes for a pod. Returns None if a problem with its claims excludes all nodes."""
        claims = self.model.state.devices.claims_of(pod)
        if not isinstance(claims, PodClaims):
            return None
        return self.model.state.placement.rules.judge(Candidate(pod), claims, thorough=thorough)

    def mind_neighbours(self) -> bool:
        """Whether any waiting pod was refused by rules about other pods."""
        return bool(self.model.queue.refused_by(NEIGHBOUR_RULES))

    def problem_of(self, pod: Pod) -> ClaimProblem | None:
        """Return the problem with a pod's claims that excludes all nodes, or None."""
        found = self.model.state.devices.claims_of(pod)
        return None if isinstance(found, PodClaims) else found

    @contextmanager
    def fork(self) -> Iterator[Cluster]:
        """Context manager: undo all changes to the cluster when the block ends.

        The block works on this same object, so the cost depends on the number of changes, not on the cluster's size.
        """
        kept = vars(self).copy()
        vars(self).update({name: copy(one) for name, one in kept.items() if isinstance(one, (list, dict))})
        self.observers = []
        try:
            with self.model.fork():
                yield self
        finally:
            vars(self).update(kept)

    # -- pods

    def _come(self, pod: Pod, runs: float | None) -> None:
        """Add a pod that starts to wait, or runs if it already has a node. Finished pods are ignored."""
        pod = self._named(pod)
        if podclaims.is_finished(pod):
            return
        pod = _running_for(pod, runs)
        if pod.spec.nodeName:
            self.model.put(pod)
            self._end_later(pod)
            return
        pod = self._claims.made_for(pod)
        is_new = self.model.queue.get(pod.metadata.uid) is None
        self.model.put(pod)
        for observer in self.observers if is_new else ():
            observer.came(self.now, pod)

    def _decide(self, waiting: Waiting) -> PlacementDecision:
        """Decide about a pod, continuing until the decision is finished."""
        while True:
            begun = time.perf_counter()
            attempt = self.model.begin(
                waiting, among=self.among, preferred=self.preferred(waiting.pod), is_terse=self.is_terse
            )
            decision = self.model.decide(attempt)
            if not isinstance(decision, Unfinished):
                return decision
            attempt.seconds += time.perf_counter() - begun

    def _refuse(self, waiting: Waiting, decision: PlacementDecision) -> None:
        assert isinstance(decision, Refused)
        self.model.refuse(waiting, decision)
        self._note_refused(waiting, decision.why)
        if decision.plan is not None:
            self._preempt(waiting, decision.plan)
        for claim in decision.to_release:
            self.free(claim, "")

    def _note_refused(self, waiting: Waiting, why: Unschedulable) -> None:
        self._why[waiting.key] = why
        for observer in self.observers:
            observer.refused(self.now, waiting.pod, why)

    def _preempt(self, waiting: Waiting, plan: PreemptionPlan) -> None:
        """Carry out a preemption plan. The victims end at once, since their termination time is unknown."""
        self.model.preempt(waiting, plan)
        for pod in plan.pods:
            self.preempted[name_of(pod)] = name_of(waiting.pod)
            self._end(pod)
        self.model.preempted(waiting.key)

    def _preempt_for(self, gang: GangAttempt, plan: GroupPreemptionPlan) -> None:
        """Carry out a preemption plan of a gang. The victims end at once."""
        self.model.gangs.preempt(gang, plan)
        for pod in plan.pods:
            self.preempted[name_of(pod)] = name_of(gang.leader.pod)
            self._end(pod)
        self.model.gangs.preempted(gang)

    def _bind(self, promise: Promise) -> None:
        """Bind a promised pod to its node and notify the observers."""
        pod = promise.claims.pod
        bound = self._claims.bound(promise)
        self.model.put(bound)
        self._why.pop(pod.metadata.uid, None)
        self._end_later(bound)
        for observer in self.observers:
            observer.placed(self.now, bound, promise)

    def _end_later(self, pod: Pod) -> None:
        """Schedule the end of a pod if its annotation gives a run time.

        The annotation is in seconds.
        """
        said = pod.metadata.annotations.get(SECONDS)
        if said:
            key = pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
            self._later(self.now + float(said), lambda: self._end_if_there(*key))

    def _end_if_there(self, name: str, namespace: str, uid: str) -> None:
        found = self.get(Pod, name, namespace)
        if found is not None and found.metadata.uid == uid:
            self._end(found)

    def end_without_claims(self, pod: Pod) -> None:
        """End a pod while its claims keep their devices until `free`."""
        self._end(pod, with_claims=False)

    def free(self, claim: ResourceClaim, owner: str) -> None:
        """Deallocate a claim, or delete the claim if the pod with uid `owner` controls it.

        With an empty `owner`, the claim is deallocated. Refused pods may then be tried again.
        """
        self._claims.free(claim, owner)
        self._wake_for_devices()

    def _end(self, pod: Pod, *, with_claims: bool = True) -> None:
        """Delete a pod and release its claims, unless `with_claims` is false."""
        self._why.pop(pod.metadata.uid, None)
        self.model.drop(pod)
        if with_claims:
            self._claims.let_go(pod)
        for observer in self.observers:
            observer.ended(self.now, pod)
        self._wake_for_devices()

    # -- time and hints

    def _later(self, at: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), what))

    def next_event(self) -> float | None:
        """Return the time of the next scheduled event, in the simulation's seconds, or None if none is scheduled.

        Refused pods are not retried by time.
        """
        return self._events[0][0] if self._events else None

    def _put(self, obj: Wire) -> None:
        """Add or replace an object other than a pod, and generate claims of waiting pods that it makes possible."""
        self.model.put(obj)
        if isinstance(obj, (ResourceClaimTemplate, PodGroup)):
            for waiting in [*self.model.queue]:
                pod = self._claims.made_for(waiting.pod)
                if pod is not waiting.pod:
                    self.model.put(pod)
        self._wake_for_devices()

    def _wake_for_devices(self) -> None:
        if self.model.has_device_news:
            self.model.wake_for_devices()

    def _named(self, obj: Any) -> Any:
        """Return the object with a uid. Uids are consecutive numbers, so the same calls give the same uids."""
        meta: ObjectMeta = obj.metadata
        if meta.uid:
            return obj
        self._made += 1
        return replace(obj, metadata=replace(meta, uid=str(uuid.UUID(int=self._made))))


def _running_for(pod: Pod, seconds: float | None) -> Pod:
    """Return the pod with an annotation for its run time; unchanged if `seconds` is None."""
    if seconds is None:
        return pod
    annotations = {**pod.metadata.annotations, SECONDS: repr(seconds)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
