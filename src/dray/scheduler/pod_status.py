"""Writes the PodScheduled condition and the events that report why a pod waits or which node the pod got.

The same text is repeated at most once a minute, and never after the pod has a node. Left out: finding the reason, and
its wording (`dray.api.reasons.wording`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from dray.api.binding_conditions import DeviceBinding
from dray.api.errors import ApiError
from dray.api.reasons import wording
from dray.api.reasons.groups import WRONG
from dray.api.reasons.nodes import Unschedulable
from dray.api.times import timestamp
from dray.api.types.core import Pod, PodCondition, PodStatus
from dray.api.verbosity import WHY
from dray.background.turns import WRITE, take
from dray.client import Client, change_status, with_conditions
from dray.client.events import EventRecorder
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

REMIND_AFTER = 60.0  # seconds before the same event is repeated; a full cluster retries its pods very often
UNSCHEDULABLE = "Unschedulable"  # the condition's reason
SCHEDULER_ERROR = "SchedulerError"  # condition reason if waiting alone will not help


class PodStatusWriter:
    """Writes conditions and events of pods."""

    def __init__(self, client: Client, tasks: Tasks, now: Callable[[], float]) -> None:
        self._client = client
        self._tasks = tasks
        self._now = now
        self.recorder = EventRecorder(client, "default-scheduler")
        self._writing: dict[str, asyncio.Task[None]] = {}  # pod uid → running write of the pod's condition
        self._told: dict[str, tuple[str, float]] = {}  # pod uid → text and time of the last report

    async def run(self) -> None:
        await self.recorder.run()

    def report_unschedulable(self, pod: Pod, why: Unschedulable) -> None:
        """Write a PodScheduled=False condition and an event with the reason why a pod is unschedulable."""
        text = wording.unschedulable(why)
        log.log(WHY, "pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, text)
        self._tell(pod, SCHEDULER_ERROR if is_wrong(why) else UNSCHEDULABLE, text)

    def report_not_bound(self, pod: Pod, node: str, error: Exception) -> None:
        """Write a PodScheduled=False condition and an event that binding a pod to the node failed."""
        self._tell(pod, SCHEDULER_ERROR, wording.not_bound(node, str(error)))

    def report_devices_not_ready(self, pod: Pod, found: DeviceBinding) -> None:
        """Write a PodScheduled=False condition and an event that the devices of a pod did not become ready."""
        self._tell(pod, SCHEDULER_ERROR, wording.devices_not_ready(found))

    def report_devices_pending(self, pod: Pod, node: str) -> None:
        """Write an event that the devices of a pod are allocated but not ready yet."""
        self.recorder.record(pod, "BindingConditionsPending", wording.waits_for_devices(node))

    def report_bound(self, pod: Pod, node: str) -> None:
        """Write an event that a pod is bound to its node."""
        self.forget(pod.metadata.uid)
        self.recorder.record(pod, "Scheduled", wording.bound(pod.metadata.namespace, pod.metadata.name, node))

    @property
    def has_reported(self) -> bool:
        """Whether the last report about any pod is still known."""
        return bool(self._told)

    def forget(self, uid: str) -> None:
        """Forget the last report about a pod."""
        if self._told.pop(uid, None) and not self._told:
            self._told.clear()  # frees the memory of a table that was large

    def is_writing(self, uid: str) -> bool:
        """Whether a condition of this pod is being written."""
        return uid in self._writing

    async def finished(self, uid: str) -> None:
        """Wait for a running write of a pod's condition, so that this write cannot follow a later change."""
        if (writing := self._writing.get(uid)) is not None:
            await asyncio.wait([writing])

    def _tell(self, pod: Pod, reason: str, text: str) -> None:
        """Write condition and event; only the event for a repeated text, and nothing if repeated too soon."""
        uid, now = pod.metadata.uid, self._now()
        said, when = self._told.get(uid, ("", 0.0))
        if said == text and now - when < REMIND_AFTER:
            return
        self._told[uid] = text, now
        if said == text:
            self.recorder.warning(pod, "FailedScheduling", text)
            return
        task = self._writing[uid] = self._tasks.start(self._write(pod, reason, text, self._writing.get(uid)))
        task.add_done_callback(lambda done: self._writing.get(uid) is done and self._writing.pop(uid))

    async def _write(self, pod: Pod, reason: str, text: str, earlier: asyncio.Task[None] | None) -> None:
        """Write the condition, then the event, so that clients that see the event also find the condition.

        Waits for the `earlier` write of the pod first. If the condition cannot be written, only the event is.
        """
        if earlier is not None:
            await asyncio.wait([earlier])
        await take(WRITE)  # thousands of conditions may be written at once
        told = PodCondition(None, timestamp(time.time()), text, 0, reason, "False", "PodScheduled")
        try:
            await change_status(self._client, pod, lambda pod: _with_condition(pod, told))
        except ApiError as error:
            log.debug("could not write the condition of %s: %s", pod.metadata.name, error)
        self.recorder.warning(pod, "FailedScheduling", text)


def is_wrong(why: Unschedulable) -> bool:
    """Whether a refusal reports wrong input, which a user must correct, so that waiting alone does not help."""
    return why.wrong is not None or (why.group is not None and why.group.code in WRONG)


def _with_condition(pod: Pod, told: PodCondition) -> PodStatus:
    """Return the status with the condition, or the unchanged status if the pod already has a node."""
    return pod.status if pod.spec.nodeName else with_conditions(pod.status, told)
