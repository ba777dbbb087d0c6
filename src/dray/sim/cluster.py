"""A cluster in memory under virtual time: objects in, placements out, by the scheduler's own code.

Nothing is asked of an API server and nothing takes real time: a pod that runs for an hour ends when the clock is turned
past it. Queue, rules, search for devices and scores are those of `dray.scheduler`; what a binding would write is put
into the picture at once. The same objects and calls give the same placements. Left out: what controllers make of
Deployments and Jobs, and how long writes take in a real cluster.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.claim_access import PodClaims
from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.podclaims import Sharing
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeVerdict, SchedulingRule, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.wire import Tree, Wire
from dray.core.attempt import Attempt, Decision, Promise, Refused, Unfinished
from dray.core.configuration import Configuration
from dray.core.queue import SchedulingQueue, Waiting
from dray.node.played import SECONDS
from dray.scheduler.hints import DEVICE_RULES, NEIGHBOUR_RULES, ROOM_RULES, wake_helped
from dray.sim.claims import SimulatedClaims
from dray.sim.naming import name_of
from dray.sim.picture import SimulatedPicture
from dray.sim.uses import DeviceUse, devices_of
from dray.sim.watching import Observer
from dray.verdicts.demand import Candidate
from dray.verdicts.rules import Judgement

W = TypeVar("W", bound=Wire)
_DEVICE_KINDS = (ResourceSlice, DeviceTaintRule)
_OWN = ("_queue", "now", "_last", "observers", "among", "preferred", "is_terse", "_made")  # what a trial may replace


class Explanation(msgspec.Struct, frozen=True):
    """What became of a pod: its node and its devices, or why it waits.

    `why` is what the scheduler said when it tried the pod last, `problem` what is wrong with its claims before any node is
    looked at, and `verdicts` is what every node says now, rule by rule. `dray.api.reasons.wording` makes words of them.
    """

    node: str = ""
    devices: tuple[DeviceUse, ...] = ()
    why: Unschedulable | None = None
    problem: ClaimProblem | None = None
    verdicts: tuple[NodeVerdict, ...] = ()


class Cluster:
    """A simulated cluster. `now` is its clock, in seconds; `observers` are told what happens."""

    def __init__(
        self,
        objects: Iterable[Wire | Tree] = (),
        *,
        gates: FeatureGates | None = None,
        configuration: Configuration | None = None,
        now: float = 0.0,
    ) -> None:
        self.gates = gates or FeatureGates()
        self.now = now
        self.observers: list[Observer] = []
        self.among: int | None = None  # the nodes that pods may go to, as a set of positions; None: all
        self.preferred: Callable[[Pod], str] = lambda pod: ""  # the node for a pod where several are equally good
        self.is_terse = False  # whether `waiting` goes without the node on which a pod came farthest, to save time
        self._held: set[str] = set()  # uids of pods that are not tried before they are released
        self._profiles = (configuration or Configuration()).profiles
        self.picture = SimulatedPicture(self.gates)
        self._claims = SimulatedClaims(self.picture, Sharing.of(self.gates), self._named)
        self._queue = SchedulingQueue(lambda: self.now, flush_after=math.inf)  # here no event is missed
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._made = 0  # objects that got a uid here
        self._last: Candidate | None = None
        self._why: dict[str, Unschedulable] = {}  # pod uid → why it waits
        self.add(*objects)

    # -- what there is

    def add(self, *objects: Wire | Tree) -> None:
        """Add or replace objects, typed or as they are written in manifests. Pods without a node begin to wait."""
        for one in objects:
            typed = object_of(one, self.gates) if isinstance(one, dict) else one
            if isinstance(typed, Pod):
                self.submit(typed)
            else:
                self.picture.put(self._named(typed))
                self._helped_by(typed)

    def remove(self, type_: type[Wire], name: str, namespace: str = "") -> None:
        """Remove an object; KeyError when there is none. The pods of a node that goes are deleted with it."""
        found = self.picture.get(type_, name, namespace)
        if found is None:
            raise KeyError(f"{type_.__name__} {namespace + '/' if namespace else ''}{name}")
        if isinstance(found, Pod):
            self._end(found)
            return
        if isinstance(found, Node):
            for pod in self.pods_on(name):
                self._end(pod)
        self.picture.drop(found)
        self._helped_by(found)

    def get(self, type_: type[W], name: str, namespace: str = "") -> W | None:
        return self.picture.get(type_, name, namespace)

    def current(self, one: W) -> W | None:
        """An object as it is now; None where none of its name is left."""
        meta: ObjectMeta = cast(Any, one).metadata
        return self.picture.get(type(one), meta.name, meta.namespace)

    def all(self, type_: type[W]) -> Iterator[W]:
        return self.picture.all(type_)

    def pods_on(self, node: str) -> list[Pod]:
        info = self.picture.table.get(node)
        return [placed.pod for placed in info.pods.values()] if info is not None else []

    def holders(self) -> dict[DeviceId, ResourceClaim]:
        """Which claim holds a device, whole or in part."""
        return {device: claim for claim in self.all(ResourceClaim) for device in taken_by_claim(claim).touched}

    def waiting(self) -> dict[str, Unschedulable]:
        """The pods that were tried and wait, as namespace/name, each with why."""
        names = {pod.metadata.uid: name_of(pod) for pod in self.all(Pod)}
        return {names[uid]: why for uid, why in self._why.items() if uid in names}

    # -- what happens

    def submit(self, pod: Pod | Tree, *, at: float | None = None, runs: float | None = None) -> None:
        """Let a pod come, now or at a time; it ends after `runs` seconds on its node, or when its annotation says so."""
        typed = object_of(pod, self.gates) if isinstance(pod, dict) else pod
        assert isinstance(typed, Pod)
        if at is not None and at > self.now:
            self._later(at, lambda: self._come(typed, runs))
        else:
            self._come(typed, runs)

    def is_waiting(self, uid: str) -> bool:
        """Whether a pod has come and got no node yet."""
        return self._queue.get(uid) is not None

    def hold(self, uid: str) -> None:
        """Do not try a pod before it is released; to be called before it comes."""
        self._held.add(uid)

    def release(self, uid: str) -> None:
        """Let a pod be tried that was held."""
        self._held.discard(uid)
        if (waiting := self._queue.get(uid)) is not None:
            self._queue.add(waiting.pod, gated=self._is_gated(waiting.pod))

    def settle(self) -> int:
        """Try the pods that can be tried now, until none is left; how many got a node."""
        placed = 0
        while (waiting := self._queue.pop()) is not None:
            decision = self._decide(waiting)
            if isinstance(decision, Promise):
                self._queue.remove(waiting.key)
                self._bind(decision)
                placed += 1
            else:
                self._refuse(waiting, decision)
            self._queue.judged(waiting)
        return placed

    def advance(self, seconds: float) -> None:
        """Turn the clock; everything that is due happens, in order."""
        self.run(self.now + seconds)

    def run(self, until: float | None = None) -> None:
        """Let time pass: to a moment, or until nothing is left that would happen by itself."""
        self.settle()
        while (due := self.next_event()) is not None and (until is None or due <= until):
            self.now = max(self.now, due)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self.settle()
        if until is not None:
            self.now = max(self.now, until)

    def preview(self, uid: str) -> Promise | None:
        """What a pod that waits would get if it were tried now; None for nothing. Changes nothing."""
        waiting, start = self._queue.get(uid), self.picture.placement.start
        if waiting is None:
            return None
        attempt = waiting.attempt
        decision = self._decide(waiting)
        waiting.attempt, self.picture.placement.start = attempt, start
        if not isinstance(decision, Promise):
            return None
        for claim in decision.pending:
            self.picture.devices.ledger.forget(claim.metadata.uid)
        return decision

    def explain(self, name: str, namespace: str = "default") -> Explanation:
        """What became of a pod, and why; KeyError when there is none of this name."""
        pod = self.get(Pod, name, namespace)
        if pod is None:
            raise KeyError(f"Pod {namespace}/{name}")
        if pod.spec.nodeName:
            return Explanation(pod.spec.nodeName, tuple(devices_of(self.picture, pod)))
        why, problem = self._why.get(pod.metadata.uid), self.problem_of(pod)
        return Explanation(why=why, problem=problem, verdicts=tuple(self.verdicts(pod)))

    def verdicts(self, pod: Pod) -> list[NodeVerdict]:
        """What every node says to a pod, rule by rule."""
        judged = self.judge(pod, thorough=True)
        return self.picture.placement.rules.verdicts(judged) if judged is not None else []

    def judge(self, pod: Pod, *, thorough: bool = False) -> Judgement | None:
        """What the rules say of the nodes; None where the claims of the pod are in the way before any node is."""
        claims = self.picture.devices.claims_of(pod)
        if not isinstance(claims, PodClaims):
            return None
        return self.picture.placement.rules.judge(Candidate(pod), claims, thorough=thorough)

    def mind_neighbours(self) -> bool:
        """Whether pods wait that others may help by coming, or keep out."""
        return bool(self._queue.refused_by(NEIGHBOUR_RULES))

    def problem_of(self, pod: Pod) -> ClaimProblem | None:
        """What is wrong with the claims of a pod before any node is looked at."""
        found = self.picture.devices.claims_of(pod)
        return None if isinstance(found, PodClaims) else found

    @contextmanager
    def fork(self) -> Iterator[Cluster]:
        """Try something: at the end of the block the cluster is as it was before it.

        The trial is this same cluster, so it costs what it changes, however large the cluster is.
        """
        kept = {name: vars(self)[name] for name in _OWN}
        copied = {"_events": [*self._events], "_why": dict(self._why), "_held": set(self._held)}
        start = self.picture.placement.start
        self._queue = self._queue.copy()
        self.observers = []
        self.picture.journal.mark()
        try:
            yield self
        finally:
            self.picture.journal.roll_back()
            vars(self).update(kept | copied)
            self.picture.placement.start = start

    # -- pods

    def _come(self, pod: Pod, runs: float | None) -> None:
        pod = self._named(pod)
        if podclaims.is_finished(pod):
            return
        pod = _running_for(pod, runs)
        if pod.spec.nodeName:
            self.picture.put(pod)
            self._end_later(pod)
            return
        pod = self._claims.made_for(pod)
        is_new = self._queue.get(pod.metadata.uid) is None
        self.picture.put(pod)
        self._queue.add(pod, gated=self._is_gated(pod))
        for observer in self.observers if is_new else ():
            observer.came(self.now, pod)

    def _is_gated(self, pod: Pod) -> bool:
        """Whether a pod may not be tried yet."""
        if pod.spec.schedulingGates or pod.metadata.uid in self._held:
            return True
        return self.picture.devices.missing_for(pod) is not None

    def _decide(self, waiting: Waiting) -> Decision:
        """As the scheduler decides; there is nobody else here who would want a turn."""
        pod = waiting.pod
        self._last = Candidate(pod, self._last)
        profile = self._profiles.get(pod.spec.schedulerName) or next(iter(self._profiles.values()))
        attempt = waiting.attempt = Attempt(
            self._last,
            PodClaims(pod),
            profile,
            among=self.among,
            preferred=self.preferred(pod),
            is_terse=self.is_terse,
        )
        claims = self.picture.devices.claims_of(pod)
        if not isinstance(claims, PodClaims):
            return Refused(
                Unschedulable(len(self.picture.table), problem=claims), frozenset({SchedulingRule.DYNAMIC_RESOURCES})
            )
        attempt.claims = claims
        return self._search(attempt)

    def _search(self, attempt: Attempt) -> Decision:
        while True:
            begun = time.perf_counter()
            decision = self.picture.placement.decide(attempt)
            attempt.seconds += time.perf_counter() - begun
            if not isinstance(decision, Unfinished):
                return decision

    def _refuse(self, waiting: Waiting, decision: Decision) -> None:
        assert isinstance(decision, Refused)
        assert waiting.attempt is not None  # the decision is its result
        self._queue.refuse(waiting, decision.rules, waiting.attempt.alike)
        self._why[waiting.key] = decision.why
        for observer in self.observers:
            observer.refused(self.now, waiting.pod, decision.why)

    def _bind(self, promise: Promise) -> None:
        pod = promise.claims.pod
        bound = self._claims.bound(promise)
        self.picture.put(bound)
        self._why.pop(pod.metadata.uid, None)
        self._end_later(bound)
        for observer in self.observers:
            observer.placed(self.now, bound, promise)
        self._queue.activate(self._queue.refused_by(NEIGHBOUR_RULES))

    def _end_later(self, pod: Pod) -> None:
        said = pod.metadata.annotations.get(SECONDS)
        if said:
            key = pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
            self._later(self.now + float(said), lambda: self._end_if_there(*key))

    def _end_if_there(self, name: str, namespace: str, uid: str) -> None:
        found = self.get(Pod, name, namespace)
        if found is not None and found.metadata.uid == uid:
            self._end(found)

    def end_without_claims(self, pod: Pod) -> None:
        """Let a pod end whose claims keep their devices until `free` says that they do not."""
        self._end(pod, with_claims=False)

    def free(self, claim: ResourceClaim, owner: str) -> None:
        """A claim loses its devices; it goes where it was made for the pod with the uid `owner`."""
        self._claims.free(claim, owner)
        wake_helped(self._queue, self.picture.devices)

    def _end(self, pod: Pod, *, with_claims: bool = True) -> None:
        """A pod is gone: so are its claims, and its reservations of others'."""
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._why.pop(uid, None)
        self.picture.drop(pod)
        if with_claims:
            self._claims.let_go(pod)
        for observer in self.observers:
            observer.ended(self.now, pod)
        self._queue.activate(self._queue.refused_by(ROOM_RULES))
        wake_helped(self._queue, self.picture.devices)

    # -- time and hints

    def _later(self, at: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at, next(self._order), what))

    def next_event(self) -> float | None:
        """When something happens by itself. A pod that was refused waits for an event and for no time."""
        return self._events[0][0] if self._events else None

    def _helped_by(self, changed: Wire) -> None:
        """Let pods try again that a change of an object may help."""
        if isinstance(changed, Node):
            self._queue.activate(self._queue.refused_by())
        elif isinstance(changed, DeviceClass):
            self._queue.activate(self._queue.refused_by(DEVICE_RULES | {SchedulingRule.NODE_RESOURCES_FIT}))
        elif isinstance(changed, _DEVICE_KINDS):
            wake_helped(self._queue, self.picture.devices)
        elif isinstance(changed, (ResourceClaim, ResourceClaimTemplate)):
            self._claims_changed()

    def _claims_changed(self) -> None:
        for waiting in [*self._queue]:
            pod = self._claims.made_for(waiting.pod)
            if pod is not waiting.pod:
                self.picture.put(pod)
            self._queue.add(pod, gated=self._is_gated(pod))
            if waiting.refused_by & DEVICE_RULES:
                self._queue.activate_one(waiting.key)

    def _named(self, obj: Any) -> Any:
        """The object with a uid: the next number, so that the same calls give the same uids."""
        meta: ObjectMeta = obj.metadata
        if meta.uid:
            return obj
        self._made += 1
        return replace(obj, metadata=replace(meta, uid=str(uuid.UUID(int=self._made))))


def _running_for(pod: Pod, seconds: float | None) -> Pod:
    """The pod with an annotation that says for how long it runs."""
    if seconds is None:
        return pod
    annotations = {**pod.metadata.annotations, SECONDS: repr(seconds)}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
