"""Replay of a recording with the scheduler's own code, unchanged or with a change.

In *recorded* order, a pod is tried when the recorded scheduler chose its node, so an unchanged recording reproduces
the recorded placements. In *free* order, pods are tried when they arrive and whenever a change may help, and run as
long as recorded; this shows the effect of a change. Among equally good nodes, the recorded node is preferred, so that
placements differ only for a reason. Left out: different behaviour of controllers, and the duration of writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.allocator.bits import positions
from dray.api.gates import FeatureGates
from dray.api.naming import typed_key
from dray.api.podclaims import is_controlled_by, is_finished
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Node, Pod, PodStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus, ResourceSlice
from dray.core.attempt import COMPARED
from dray.core.configuration import Configuration
from dray.replay.measures import SAMPLES, Figures, Meter, PlacedAt, Prices
from dray.replay.timeline import Arrive, Decide, Drop, End, Free, Put, Story, Timeline, TimelineStep
from dray.sim.cluster import Cluster

_HARDWARE = (Node, ResourceSlice)
HEARD_AFTER = 1.0  # seconds after which a scheduler is assumed to know of every change
Tick = Callable[[int, int], None]  # number of completed steps, and number of all steps


class Setup(msgspec.Struct, frozen=True):
    """Settings of a replay. `objects` replace recorded objects of the same name or are added.

    `instead`: leave out the recorded nodes and slices, so that `objects` are the only hardware.
    """

    gates: FeatureGates = FeatureGates()
    configuration: Configuration = Configuration()
    objects: tuple[Any, ...] = ()
    instead: bool = False
    prepare: Callable[[Cluster], object] = lambda cluster: None  # called with the cluster before the replay starts


class Replayed(msgspec.Struct, frozen=True):
    """Result of a replay: figures, and placements by pod uid."""

    figures: Figures
    placements: dict[str, PlacedAt]


class Replay:
    """One replay of a timeline. After an interrupted `run`, `result` returns what was reached."""

    def __init__(
        self, timeline: Timeline, setup: Setup | None = None, *, is_free: bool, prices: Prices | None = None
    ) -> None:
        self._timeline = timeline
        self._setup = setup or Setup()
        self._is_free = is_free
        self._replaced = {typed_key(one) for one in self._setup.objects}
        self._pods: dict[str, Pod] = {}
        self._displaced: list[Pod] = []  # pods whose nodes were left out
        self.cluster = Cluster(gates=self._setup.gates, configuration=self._setup.configuration)
        self.cluster.is_terse = True  # figures only need reason codes
        self.cluster.preferred = lambda pod: self._story(pod).node
        self.cluster.add(*self._setup.objects, *self._beginning())
        self._setup.prepare(self.cluster)
        self.meter = Meter(self.cluster, prices)
        self._unheard: deque[TimelineStep] = (
            deque()
        )  # steps that have happened but may have been unknown when a pod was placed
        self._is_complete = False
        self._next_sample = 0.0
        self._pause = max(timeline.seconds / SAMPLES, 1e-3)  # seconds between two samples of fragmentation

    def run(self, tick: Tick | None = None) -> Replayed:
        """Run all steps. Returns the result. Calls `tick` with the progress every 64 steps."""
        steps = self._timeline.steps
        for pod in self._displaced:
            self._arrive(pod)
        for number, step in enumerate(steps):
            self._until(step.at)
            if self._is_free:
                self._do(step)
            else:
                self._hear(step)
            self.cluster.settle()
            if tick is not None and number % 64 == 0:
                tick(number, len(steps))
        self._finish()
        self._is_complete = True
        return self.result()

    def result(self) -> Replayed:
        """Return figures and placements reached so far."""
        return Replayed(self.meter.figures(is_complete=self._is_complete), self.meter.placements)

    # -- steps

    def _beginning(self) -> Iterator[Any]:
        """Yield the initial objects.

        If hardware is replaced, allocations are cleared and pods are set aside to be placed anew.
        """
        pods = []
        for one in self._timeline.objects:
            if isinstance(one, Pod):
                pods.append(one)
            elif self._stays(one):
                is_new = self._setup.instead and isinstance(one, ResourceClaim)
                yield replace(one, status=ResourceClaimStatus()) if is_new else one
        if self._setup.instead:
            self._displaced += [_unplaced(pod) for pod in pods if not is_finished(pod)]
            return
        for pod in pods:
            self._pods[pod.metadata.uid] = pod
            yield pod

    def _stays(self, one: Any) -> bool:
        """Whether a recorded object is kept, neither replaced nor left out."""
        return typed_key(one) not in self._replaced and not (self._setup.instead and isinstance(one, _HARDWARE))

    def _hear(self, step: TimelineStep) -> None:
        """Process a step in recorded order.

        Changes by other components are delayed, since a scheduler learns of them later.
        """
        self._hear_all(step.at)
        if isinstance(step, (End, Free)) or (isinstance(step, (Put, Drop)) and _type_of(step) in _HARDWARE):
            self._unheard.append(step)
            if isinstance(step, End) and step.uid in self._pods:
                self.meter.ended(step.at, self._pods[step.uid])  # the figures use the recorded end
        else:
            self._do(step)

    def _hear_all(self, now: float) -> None:
        """Apply delayed steps that a scheduler knows by now."""
        while self._unheard and self._unheard[0].at < now - HEARD_AFTER:
            self._do(self._unheard.popleft())

    def _decide(self, uid: str) -> None:
        """Place a pod, applying delayed steps until the decision equals the recorded one, if possible.

        Does nothing in free order. `uid` is the UID of the pod.
        """
        if self._is_free:
            return
        while any(map(partial(_frees_for, self._pods[uid]), self._unheard)):
            self._do(self._unheard.popleft())
        while not self._is_as_recorded(uid) and not self._begins_elsewhere(uid) and self._unheard:
            self._do(self._unheard.popleft())
        self.cluster.release(uid)

    def _is_as_recorded(self, uid: str) -> bool:
        """Whether the pod would now get the recorded node and devices."""
        story, promise = self._timeline.stories[uid], self.cluster.preview(uid)
        if promise is None or promise.node != story.node:
            return False
        taken = promise.outcome.taken if promise.outcome is not None else ()
        return all(story.held.issuperset(one.touched) for one in taken)

    def _begins_elsewhere(self, uid: str) -> bool:
        """Search for the scheduler's starting position among many nodes, which is not recorded.

        Returns whether one was found.

        The recorded scheduler compared 100 nodes, among which the recorded node was the best.
        """
        state, pod = self.cluster.model.state, self._pods[uid]
        info = state.table.get(self._timeline.stories[uid].node)
        known = self.cluster.current(pod)
        judged = self.cluster.judge(known) if known is not None else None
        if info is None or judged is None or judged.nodes.bit_count() <= COMPARED:
            return False
        fitting, start = [*positions(judged.nodes)], state.placement.start
        here = bisect_left(fitting, info.position)
        for before in range(COMPARED):
            state.placement.start = fitting[(here - before) % len(fitting)]
            if self._is_as_recorded(uid):
                return True
        state.placement.start = start
        return False

    def _do(self, step: TimelineStep) -> None:
        """Apply one step to the cluster."""
        match step:
            case Put(object=one):
                self._put(one)
            case Drop() as drop:
                self._drop(drop)
            case Arrive(pod=pod):
                self._arrive(pod)
            case Decide(uid=uid):
                self._decide(uid)
            case End(uid=uid):
                self._end(uid)
            case Free():
                self._free(step)

    def _put(self, one: Any) -> None:
        if isinstance(one, Pod):
            self._pods[one.metadata.uid] = one
            known = self.cluster.get(Node, one.spec.nodeName) is not None
            if known or self.cluster.is_waiting(one.metadata.uid):
                self.cluster.submit(one, runs=self._runs(one))
        elif self._stays(one):
            self.cluster.add(one)
            self._regard(type(one))

    def _drop(self, drop: Drop) -> None:
        if (drop.type, drop.namespace, drop.name) not in self._replaced:
            if self.cluster.get(drop.type, drop.name, drop.namespace) is not None:
                self.cluster.remove(drop.type, drop.name, drop.namespace)
            self._regard(drop.type)

    def _regard(self, type_: type[Any]) -> None:
        if type_ in _HARDWARE:
            self.meter.hardware_changed()

    def _arrive(self, pod: Pod) -> None:
        self._pods[pod.metadata.uid] = pod
        if not self._is_free:
            self.cluster.hold(pod.metadata.uid)
        self.cluster.submit(pod, runs=self._runs(pod))
        if not self._is_free:
            self._look(pod)

    def _look(self, pod: Pod) -> None:
        """Record for the figures why a held pod would wait."""
        found = self.cluster.current(pod)
        judged = self.cluster.judge(found) if found is not None else None
        if found is not None and judged is not None and not judged.nodes:
            self.meter.refused(self.cluster.now, found, Unschedulable(0, judged.refused))

    def _end(self, uid: str) -> None:
        """End a pod as recorded, unless it runs for its own recorded duration.

        Does nothing if the pod is gone.
        """
        pod = self._pods.get(uid)
        found = self.cluster.current(pod) if pod is not None else None
        if found is None or found.metadata.uid != uid:
            return
        if not self._is_free:
            self.cluster.end_without_claims(found)
        elif self._runs(found) is None or self._story(found).decided is None:
            self.cluster.remove(Pod, found.metadata.name, found.metadata.namespace)

    def _free(self, step: Free) -> None:
        """Deallocate a claim as recorded. A pod's generated claim may have another name here.

        Does nothing in free order.
        """
        if self._is_free:
            return
        claim = self.cluster.get(ResourceClaim, step.name, step.namespace)
        if claim is not None:
            self.cluster.free(claim, step.owner)
        elif step.owner:
            for one in self.cluster.all(ResourceClaim):
                if is_controlled_by(one, step.owner):
                    self.cluster.free(one, step.owner)

    def _finish(self) -> None:
        """Try the pods that never got a node, and run to the end of the recording or of the last pod."""
        while self._unheard:
            self._do(self._unheard.popleft())
        for uid in [*self._pods] if not self._is_free else ():
            self.cluster.release(uid)
        if self._timeline.has_decisions or not self._is_free:
            self._until(self._timeline.seconds)
            self.cluster.settle()
        else:
            self._run_out()

    # -- time

    def _until(self, at: float) -> None:
        """Advance time, with regular samples of fragmentation.

        `at` is in seconds of the recording.
        """
        while self._next_sample <= at:
            self._hear_all(self._next_sample)
            self._sample()
            self._next_sample += self._pause
        self.cluster.run(at)

    def _run_out(self) -> None:
        """Run until all pods have ended, with increasing intervals between samples."""
        self.cluster.settle()
        self.meter.sample()
        while (last := self.cluster.next_event()) is not None:
            self._next_sample = max(self._next_sample, last)
            self._sample()
            self._next_sample += self._pause
            self._pause *= 1 + 1 / SAMPLES

    def _sample(self) -> None:
        self.cluster.run(self._next_sample)
        self.meter.sample()

    def _story(self, pod: Pod) -> Story:
        """Return the recorded story of a pod, empty if unknown."""
        return self._timeline.stories.get(pod.metadata.uid) or Story("")

    def _runs(self, pod: Pod) -> float | None:
        """Return the recorded run time of a pod in free order, or None.

        In seconds. None in the recorded order, or if the run time is not known.
        """
        return self._story(pod).runs if self._is_free else None


def _frees_for(pod: Pod, step: TimelineStep) -> bool:
    """Whether a step deallocates a claim that a pod may share, so that it may have been reallocated for this pod."""
    is_shared = isinstance(step, Free) and not step.owner and step.namespace == pod.metadata.namespace
    return is_shared and any(not entry.resourceClaimTemplateName for entry in pod.spec.resourceClaims)


def _type_of(step: Put | Drop) -> type[Any]:
    return step.type if isinstance(step, Drop) else type(step.object)


def _unplaced(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, nodeName=""), status=PodStatus())
