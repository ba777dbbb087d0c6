"""Timeline of a followed recording: steps for a simulation, without what the scheduler wrote.

Nodes, slices, classes, claims and pods are created, changed and deleted as recorded. For a pod's node and a claim's
devices, only the time is kept as a step (`Decide`); the result is in the pod's `Story`, for comparison. Claims
generated from known templates are left out, because the simulation generates them. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.naming import name_of
from dray.api.podclaims import is_finished, made_for
from dray.api.resources import BY_KIND
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from dray.api.wire import Wire
from dray.recordings.history import DeletedObject, History, RecordedEvent
from dray.recordings.recording import RecordingError, typed_object


@dataclass(slots=True)
class Story:
    """History of a pod in the recording. Times are seconds since its start; None if something did not happen."""

    name: str  # namespace/name
    arrived: float | None = None  # None if the pod existed before the recording
    decided: float | None = None
    node: str = ""
    ended: float | None = None
    runs: float | None = None  # seconds on its node
    devices: dict[str, frozenset[DeviceId]] = field(default_factory=dict)  # by claim name

    @property
    def held(self) -> frozenset[DeviceId]:
        """All devices of the pod's claims."""
        return frozenset().union(*self.devices.values())


class Put(msgspec.Struct, frozen=True):
    """An object was created or changed."""

    at: float
    object: Any


class Drop(msgspec.Struct, frozen=True):
    """An object was deleted."""

    at: float
    type: type[Any]
    name: str
    namespace: str


class Arrive(msgspec.Struct, frozen=True):
    """A pod without a node was created."""

    at: float
    pod: Pod


class Decide(msgspec.Struct, frozen=True):
    """The scheduler chose a node for a pod."""

    at: float
    uid: str


class End(msgspec.Struct, frozen=True):
    """A pod finished or was deleted."""

    at: float
    uid: str


class Free(msgspec.Struct, frozen=True):
    """A claim was deallocated or deleted, which controllers do shortly after a pod has ended."""

    at: float
    name: str
    namespace: str
    owner: str  # uid of the pod for which the claim was generated; empty if none


TimelineStep = Put | Drop | Arrive | Decide | End | Free


class Timeline(msgspec.Struct, frozen=True):
    """Initial objects, the following steps, and the stories of all pods by uid."""

    objects: tuple[Any, ...]
    steps: tuple[TimelineStep, ...]
    stories: dict[str, Story]
    seconds: float

    @property
    def has_decisions(self) -> bool:
        """Whether the scheduler placed any pod during the recording."""
        return any(isinstance(step, Decide) for step in self.steps)


def timeline_of(history: History) -> Timeline:
    """Convert a recording to a timeline. Raises RecordingError if an object is invalid."""
    return _Builder(history).build()


class _Builder:
    """Converts the events of a recording to steps and stories."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._steps: list[TimelineStep | None] = []
        self._stories: dict[str, Story] = {}
        self._pods: dict[tuple[str, str], Pod] = {}  # latest version by namespace and name
        self._claims: dict[tuple[str, str], ResourceClaim] = {}
        self._reserved: dict[str, int] = {}  # pods without a node → index of the step when devices were reserved
        self._templates: set[tuple[str, str]] = set()
        self._made_again: set[tuple[str, str]] = set()  # claims left out because the simulation generates them

    def build(self) -> Timeline:
        """Process all events. Returns the timeline."""
        objects = [*self._beginning(self._history.recording.typed())]
        for number, event in enumerate(self._history.events):
            self._regard(number, event)
        decided = {uid for uid, story in self._stories.items() if story.decided is not None}
        steps = (step for step in self._steps if step is not None)
        kept = tuple(step for step in steps if not isinstance(step, Decide) or step.uid in decided)
        return Timeline(tuple(objects), kept, self._stories, self._history.seconds)

    def _beginning(self, objects: Iterable[Any]) -> Iterable[Wire]:
        """Yield the initial objects. Unfinished pods without a node arrive at time 0 instead.

        Stories of pods are begun for all of them.
        """
        waiting: list[Pod] = []
        for one in objects:
            if isinstance(one, Pod):
                self._pods[_key(one)] = one
                self._stories[one.metadata.uid] = Story(name_of(one), node=one.spec.nodeName)
                if not one.spec.nodeName and not is_finished(one):
                    waiting.append(one)
                    continue
            elif isinstance(one, ResourceClaim):
                self._claims[_key(one)] = one
            elif isinstance(one, ResourceClaimTemplate):
                self._templates.add(_key(one))
            yield one
        for pod in waiting:
            self._stories[pod.metadata.uid].arrived = 0.0
            self._steps.append(Arrive(0.0, pod))

    def _regard(self, number: int, event: RecordedEvent) -> None:
        """Process one recorded event.

        `number` is the index of the event. Raises RecordingError if the event neither adds nor removes an object.
        """
        if event.gone is not None:
            self._went(event.at, event.gone)
            return
        if event.put is None:
            raise RecordingError(f"event {number + 1}: expected put or gone")
        one = typed_object(number, event.put)
        if isinstance(one, Pod):
            self._pod(event.at, one, event.runs)
        elif isinstance(one, ResourceClaim):
            self._claim(event.at, one)
        else:
            if isinstance(one, ResourceClaimTemplate):
                self._templates.add(_key(one))
            self._steps.append(Put(event.at, one))

    def _pod(self, at: float, new: Pod, runs: float | None) -> None:
        story, old = self._stories.get(new.metadata.uid), self._pods.get(_key(new))
        self._pods[_key(new)] = new
        if story is None or old is None or old.metadata.uid != new.metadata.uid:
            self._arrived(at, new, runs)
        elif is_finished(new):
            self._ended(at, new.metadata.uid)
        elif new.spec.nodeName and not story.node:
            self._decided(at, story, new)
        elif not new.spec.nodeName:
            self._steps.append(Put(at, self._without_made(new)))

    def _arrived(self, at: float, pod: Pod, runs: float | None) -> None:
        if is_finished(pod):
            return
        uid = pod.metadata.uid
        self._stories[uid] = Story(name_of(pod), arrived=at, node=pod.spec.nodeName, runs=runs)
        self._steps.append(Put(at, pod) if pod.spec.nodeName else Arrive(at, self._without_made(pod)))

    def _without_made(self, pod: Pod) -> Pod:
        """Return the pod without the names of claims that the simulation generates."""
        statuses = pod.status.resourceClaimStatuses
        kept = tuple(s for s in statuses if (pod.metadata.namespace, s.resourceClaimName) not in self._made_again)
        return pod if kept == statuses else replace(pod, status=replace(pod.status, resourceClaimStatuses=kept))

    def _decided(self, at: float, story: Story, pod: Pod) -> None:
        """Record that a pod has a node. If devices were reserved for the pod, the decision is already recorded."""
        uid = pod.metadata.uid
        story.node, story.decided = pod.spec.nodeName, at
        if uid not in self._reserved:
            self._steps.append(Decide(at, uid))

    def _ended(self, at: float, uid: str) -> None:
        story = self._stories.get(uid)
        if story is not None and story.ended is None:
            story.ended = at
            if story.decided is not None:
                story.runs = at - story.decided
            self._steps.append(End(at, uid))

    def _claim(self, at: float, new: ResourceClaim) -> None:
        old = self._claims.get(_key(new))
        self._claims[_key(new)] = new
        before = {one.uid for one in old.status.reservedFor} if old is not None else set()
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            self._free(at, old)
        for uid in before - {one.uid for one in new.status.reservedFor}:
            self._take_back(uid)
        for one in new.status.reservedFor:
            story = self._stories.get(one.uid)
            if story is not None:
                story.devices[new.metadata.name] = frozenset(taken_by_claim(new).touched)
                if not story.node and one.uid not in self._reserved:
                    self._reserved[one.uid] = len(self._steps)
                    self._steps.append(Decide(at, one.uid))
        if old is not None and old.metadata.uid == new.metadata.uid:
            return
        if self._is_made_again(new):
            self._made_again.add(_key(new))
        else:
            self._steps.append(Put(at, replace(new, status=ResourceClaimStatus())))

    def _free(self, at: float, claim: ResourceClaim) -> None:
        owner = made_for(claim, "Pod")
        uid = owner.uid if owner is not None else ""
        self._steps.append(Free(at, claim.metadata.name, claim.metadata.namespace, uid))

    def _take_back(self, uid: str) -> None:
        """Remove the decision of a pod whose reservation was removed before it got a node."""
        story = self._stories.get(uid)
        if story is not None and not story.node and (step := self._reserved.pop(uid, None)) is not None:
            self._steps[step] = None

    def _is_made_again(self, claim: ResourceClaim) -> bool:
        """Whether the simulation generates this claim: it belongs to a pod whose templates are all known.

        Also true if the pod is not known.
        """
        owner = made_for(claim, "Pod")
        if owner is None:
            return False
        pod = self._pods.get((claim.metadata.namespace, owner.name))
        wanted = [entry.resourceClaimTemplateName for entry in pod.spec.resourceClaims] if pod is not None else []
        return all((claim.metadata.namespace, name) in self._templates for name in wanted if name)

    def _went(self, at: float, gone: DeletedObject) -> None:
        group = gone.apiVersion.rpartition("/")[0]
        known = BY_KIND.get((group, gone.kind))
        if known is None:
            raise RecordingError(f"no kind {gone.kind} of {gone.apiVersion} is recorded")
        key = gone.namespace, gone.name
        if known.type is Pod:
            pod = self._pods.pop(key, None)
            if pod is not None:
                self._ended(at, pod.metadata.uid)
            return
        if known.type is ResourceClaim:
            claim = self._claims.pop(key, None)
            self._made_again.discard(key)
            if claim is not None and claim.status.allocation is not None:
                self._free(at, claim)
            if claim is not None and made_for(claim, "Pod") is not None:
                return  # deleted with its pod, which may end at another time here
        self._steps.append(Drop(at, known.type, gone.name, gone.namespace))


def _key(one: Any) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name
