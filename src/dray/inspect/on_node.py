"""A pod that has a node but does not run or does not terminate: problems of the node, its containers and drivers.

Facts from objects take precedence over events, which may be outdated. Left out: pods without a node (`pods`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import podclaims
from dray.api.allocations import DeviceId
from dray.api.claim_access import Knowledge, Purpose, claim_problem
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.claim_use import ForeignClaim
from dray.api.reasons.causes.containers import (
    ContainerFails,
    ContainerWaiting,
    ImageNotPulled,
    PodInitializing,
    PodNotReady,
)
from dray.api.reasons.causes.deleting import DriverNotThere, FinalizersLeft, IsDeleting
from dray.api.reasons.causes.on_node import (
    ClaimNotAllocated,
    NodeDead,
    NodeMissing,
    NodeTrouble,
    NotReserved,
    PodStarting,
    VolumeNotReady,
)
from dray.api.reasons.causes.settled import DevicesUnhealthy, IsFinished, IsRunning
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.reasons.wording import say
from dray.api.types.core import ContainerStatus, Event, Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.inspect.snapshot import Snapshot

_NOT_PREPARED = "FailedPrepareDynamicResources"
_NOT_UNPREPARED = "FailedUnprepareDynamicResources"
_VOLUME = "FailedMount"
_TROUBLE = (_NOT_PREPARED, "FailedCreatePodSandBox", "Failed", "BackOff")
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
_USUAL = frozenset({"", "ContainerCreating", "PodInitializing"})
_CRASHES = "CrashLoopBackOff"


class PodOnNode:
    """Examines a pod that has a node."""

    def __init__(self, snapshot: Snapshot, pod: Pod, group: PodGroup | None, known: Knowledge) -> None:
        self._snapshot = snapshot
        self._pod = pod
        self._group = group
        self._known = known
        self._node = pod.spec.nodeName

    def not_running(self) -> Cause:
        """Return why the pod does not run yet.

        PodStarting if nothing is known to be wrong.
        """
        return (
            self._dead()
            or self._claims()
            or self._containers()
            or self._told()
            or self._initializing()
            or PodStarting(self._node)
        )

    def running(self) -> Cause:
        """Return that the pod runs, or which of its containers or devices fail or are not ready."""
        failing = self._dead() or self._containers()
        if failing is not None:
            return failing
        ready = next((c for c in self._pod.status.conditions if c.type == "Ready"), None)
        if ready is not None and ready.status != "True":
            event = self._event("Unhealthy")
            message = event.message if event is not None else ready.message or ready.reason
            return PodNotReady(self._node, message.rstrip(": "))
        sick = self._unhealthy()
        return DevicesUnhealthy(self._node, sick) if sick else IsRunning(self._node)

    def finished(self) -> Cause:
        """Return that the pod has ended, with the failure message of its status or containers.

        The message is empty if there is none.
        """
        status = self._pod.status
        message = status.message or status.reason
        if status.phase == "Failed" and not message:
            message = next(filter(None, map(_failure, (*status.initContainerStatuses, *status.containerStatuses))), "")
        return IsFinished(status.phase, message)

    def deleting(self) -> Cause:
        """Return why a deleted pod still exists.

        IsDeleting if nothing keeps the pod.
        """
        stuck = self._event(_NOT_UNPREPARED)
        if stuck is not None:
            drivers = tuple(sorted({driver for claim in self._own() for driver in _drivers(claim)}))
            return DriverNotThere(self._node, drivers, stuck.message)
        dead = self._dead()
        if dead is not None:
            return dead
        finalizers = self._pod.metadata.finalizers
        return FinalizersLeft(tuple(finalizers)) if finalizers else IsDeleting()

    def _unhealthy(self) -> tuple[str, ...]:
        """Return the pod's devices that drivers report as unhealthy, with the driver's message.

        Each is a text like `DEVICE (MESSAGE)`, without the message if it is empty. Sorted by device.
        """
        results = [
            one
            for claim in self._own()
            if claim.status.allocation is not None
            for one in claim.status.allocation.devices.results
        ]
        told = self._snapshot.unhealthy
        sick = {one: told[one] for one in (DeviceId(r.driver, r.pool, r.device) for r in results) if one in told}
        return tuple(f"{device} ({text})" if text else str(device) for device, text in sorted(sick.items()))

    # The node

    def _dead(self) -> Cause | None:
        """Return the cause if the node is missing or not ready, or None.

        None also if the pod has no node or nodes may not be read.
        """
        if not self._node or Node in self._snapshot.unreadable:
            return None
        node = self._snapshot.get(Node, self._node)
        if node is None:
            return NodeMissing(self._node)
        ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
        if ready is None or ready.status == "True":
            return None
        return NodeDead(self._node, ready.message or ready.reason)

    # Its claims

    def _own(self) -> Iterator[ResourceClaim]:
        """Yield the existing claims of the pod.

        Entries without a claim are left out.
        """
        for use in podclaims.uses_of(self._pod, self._group):
            claim = self._claim(use.claim) if use.claim else None
            if claim is not None:
                yield claim

    def _claim(self, name: str) -> ResourceClaim | None:
        return self._snapshot.get(ResourceClaim, name, self._pod.metadata.namespace)

    def _claims(self) -> Cause | None:
        """Return the cause if a claim keeps the pod from starting, or None.

        None also if claims may not be read. Claims that are not needed are ignored.
        """
        if ResourceClaim in self._snapshot.unreadable:
            return None
        for use in podclaims.uses_of(self._pod, self._group):
            claim = self._claim(use.claim) if use.claim else None
            if use.needed:
                problem = claim_problem(Purpose.START, self._pod, use, claim, self._group, self._known)
                if problem is not None:
                    return self._not_started(problem)
        return None

    def _not_started(self, problem: ClaimProblem) -> Cause:
        name = problem.claim or problem.entry
        match problem.code:
            case ClaimCode.NOT_RESERVED:
                return NotReserved(self._node, name)
            case ClaimCode.NOT_FOR_POD | ClaimCode.NOT_FOR_GROUP:
                return ForeignClaim(name)
            case _:
                return ClaimNotAllocated(self._node, name)

    # Its containers

    def _containers(self) -> Cause | None:
        """Return the cause if a container waits for an unusual reason, or None."""
        status = self._pod.status
        found = (self._container(one) for one in (*status.initContainerStatuses, *status.containerStatuses))
        return next((cause for cause in found if cause is not None), None)

    def _container(self, status: ContainerStatus) -> Cause | None:
        """Return why a container waits, or None if it does not wait or waits for a normal step of starting."""
        waiting = status.state.waiting if status.state is not None else None
        if waiting is None or waiting.reason in _USUAL:
            return None
        if waiting.reason in _NO_IMAGE:
            return ImageNotPulled(status.name, status.image, waiting.message)
        ended = status.lastState.terminated if status.lastState is not None else None
        if waiting.reason == _CRASHES and ended is not None:
            message = ended.message or say(CausePhrase.EXIT, code=ended.exitCode)
            return ContainerFails(self._pod.metadata.name, status.name, message, status.restartCount)
        return ContainerWaiting(status.name, waiting.message or waiting.reason)

    def _initializing(self) -> Cause | None:
        """Return the cause for a running init container, or None if none runs.

        A sidecar counts only until it has started.
        """
        sidecars = {one.name for one in self._pod.spec.initContainers if one.restartPolicy == "Always"}
        for one in self._pod.status.initContainerStatuses:
            runs = one.state is not None and one.state.running is not None
            if runs and not (one.name in sidecars and one.started):
                return PodInitializing(self._node, one.name)
        return None

    # Events

    def _told(self) -> Cause | None:
        """Return the cause that recent events report, such as a failed volume mount, or None."""
        volume = self._event(_VOLUME)
        if volume is not None:
            return VolumeNotReady(self._node, volume.message)
        trouble = self._event(*_TROUBLE)
        return NodeTrouble(self._node, trouble.message) if trouble is not None else None

    def _event(self, *reasons: str) -> Event | None:
        """Return the latest event about the pod with one of these reasons, or None."""
        return latest_event(self._snapshot, "Pod", self._pod, *reasons)


def latest_event(snapshot: Snapshot, kind: str, about: Pod, *reasons: str) -> Event | None:
    """Return the latest event about an object with one of these reasons, or None.

    Events with another UID of the object are ignored. `kind` is the object's kind.
    """
    meta = about.metadata
    found = [
        event
        for event in snapshot.all(Event)
        if event.reason in reasons
        and event.involvedObject.uid in ("", meta.uid)
        and (event.involvedObject.kind, event.involvedObject.name) == (kind, meta.name)
    ]
    return max(found, key=lambda event: event.lastTimestamp or event.metadata.creationTimestamp or "", default=None)


def _failure(status: ContainerStatus) -> str:
    """Return the text about a container that ended with an error; empty otherwise."""
    ended = status.state.terminated if status.state is not None else None
    if ended is None or not ended.exitCode:
        return ""
    return say(
        CausePhrase.ENDED, container=status.name, how=ended.message or say(CausePhrase.EXIT, code=ended.exitCode)
    )


def _drivers(claim: ResourceClaim) -> set[str]:
    allocation = claim.status.allocation
    return {result.driver for result in allocation.devices.results} if allocation is not None else set()
