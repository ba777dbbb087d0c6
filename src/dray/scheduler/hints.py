"""Which waiting pods something that happened may help, so that they are tried again and the others are not.

Whether devices that changed help a pod is asked of the allocator's index, at most every 20 ms: devices may change all the
time. Left out: what happens in the cluster (`handlers`), the order in which pods are tried (`queue`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial

from dray.api.reasons.nodes import SchedulingRule, Unschedulable
from dray.api.types.core import Pod
from dray.core.devices import Devices
from dray.core.queue import QueuePlace, SchedulingQueue
from dray.scheduler.parts import SchedulerParts

PATIENCE = 1.0  # seconds before a pod is told that a claim is missing: most are made from templates right after the pod
LOOK_SECONDS = 0.01  # for one look
LOOKS_APART = 0.02  # seconds between two looks at which waiting pods other devices help
DEVICE_RULES = frozenset({SchedulingRule.DYNAMIC_RESOURCES})
NEIGHBOUR_RULES = frozenset({SchedulingRule.INTER_POD_AFFINITY, SchedulingRule.POD_TOPOLOGY_SPREAD})
ROOM_RULES = NEIGHBOUR_RULES | {
    SchedulingRule.NODE_PORTS,
    SchedulingRule.NODE_RESOURCES_FIT,
}  # a pod that leaves may change their verdict


class Hints:
    """Wakes pods of the queue."""

    def __init__(self, parts: SchedulerParts) -> None:
        self._queue, self._table, self._devices, self._teller = parts.queue, parts.table, parts.devices, parts.teller
        self._looked = 0.0  # when waiting pods were last compared with what nodes can give
        self._look: asyncio.TimerHandle | None = None  # the next such look
        self._gated: deque[tuple[float, str]] = (
            deque()
        )  # when to tell whom that a claim is missing, the first one first
        self._telling: asyncio.TimerHandle | None = None  # of the first one

    def close(self) -> None:
        for timer in (self._look, self._telling):
            if timer is not None:
                timer.cancel()

    def pod_waits(self, old: Pod | None, new: Pod) -> None:
        """A pod that has no node came or changed, or something that it cannot be without did (`old` is `new`)."""
        if new.metadata.deletionTimestamp is not None:
            self._queue.remove(new.metadata.uid)
            return
        gates = new.spec.schedulingGates
        is_missing = not gates and self._devices.missing_for(new) is not None
        self._queue.add(new, gated=bool(gates) or is_missing)
        if is_missing and (old is None or old is new):
            self._gated.append((time.monotonic() + PATIENCE, new.metadata.uid))
            if self._telling is None:
                self._telling = asyncio.get_running_loop().call_later(PATIENCE, self._tell_patient)
        if old is not None and (spec_changed(old, new) or old.metadata.labels != new.metadata.labels):
            self._queue.activate_one(new.metadata.uid)

    def _tell_patient(self) -> None:
        """Tell those who have waited long enough, and come back for the others: one timer serves thousands of pods."""
        self._telling, now = None, time.monotonic()
        while self._gated and self._gated[0][0] <= now:
            self._tell_gated(self._gated.popleft()[1])
        if self._gated:
            self._telling = asyncio.get_running_loop().call_later(self._gated[0][0] - now, self._tell_patient)

    def _tell_gated(self, uid: str) -> None:
        """A claim that should have come by now has not: say so."""
        waiting = self._queue.get(uid)
        if waiting is not None and waiting.place is QueuePlace.GATED:
            problem = self._devices.missing_for(waiting.pod)
            if problem is not None:
                self._teller.waits(waiting.pod, Unschedulable(len(self._table), problem=problem))

    def claim_changed(self, pod: Pod) -> None:
        """A claim of this pod, or its group, came, went or changed."""
        waiting = self._queue.get(pod.metadata.uid)
        if (
            waiting is not None and waiting.place is not QueuePlace.TRYING
        ):  # else it is being bound, and the news is our own
            self.pod_waits(waiting.pod, waiting.pod)
            if waiting.refused_by & DEVICE_RULES:
                self._queue.activate_one(pod.metadata.uid)

    def special_claim_gone(self, owner: str) -> None:
        """The claim for the extended resources of a pod is gone; the pod is tried again if that kept it out."""
        waiting = self._queue.get(owner)
        if waiting is not None and waiting.refused_by & DEVICE_RULES:
            self._queue.activate_one(owner)

    def node_changed(self) -> None:
        self._queue.activate(self._queue.refused_by())

    def room_came(self) -> None:
        """A pod left its node, or needs less there."""
        self._queue.activate(self._queue.refused_by(ROOM_RULES))

    def neighbours_changed(self) -> None:
        self._queue.activate(self._queue.refused_by(NEIGHBOUR_RULES))

    def classes_changed(self, *, extended: bool = False) -> None:
        """Classes changed, or devices became free that nobody can tell; `extended`: the names that they serve, too."""
        rules = DEVICE_RULES | {SchedulingRule.NODE_RESOURCES_FIT} if extended else DEVICE_RULES
        self._queue.activate(self._queue.refused_by(rules))

    def devices_changed(self) -> None:
        """Devices changed or became free: see soon which pods that helps, at once if it was not seen lately."""
        if self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_at(max(loop.time(), self._looked + LOOKS_APART), self._wake_helped)

    def _wake_helped(self) -> None:
        self._look, self._looked = None, asyncio.get_running_loop().time()
        if not wake_helped(self._queue, self._devices):
            self.devices_changed()  # the next look gets farther, as answers are kept


def wake_helped(queue: SchedulingQueue, devices: Devices) -> bool:
    """Wake pods to which nodes can give more than when they were refused, while they can; the others go on waiting.

    Of thousands that wait, many ask for the same (`Attempt.alike`): they are asked about once, and woken one after the
    other. Answers whether there was time to look at all of them.
    """
    ends = time.monotonic() + LOOK_SECONDS
    for pods in queue.alike():
        first = pods.first()  # none where a group before took them along
        if first is not None and (attempt := first.attempt) is not None:
            queue.activate_in_turn(pods, partial(devices.is_news, attempt))
        if devices.index.defers and time.monotonic() > ends:
            return False
    return True


def spec_changed(old: Pod, new: Pod) -> bool:
    return old.spec is not new.spec and old.spec != new.spec
