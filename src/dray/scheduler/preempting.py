"""What a preemption writes: the nominated node of the preemptor, then the end of each victim.

The preemptor is not tried again before every call was answered. A victim that could not be ended is spared: the preemptor
is tried again after a while, and finds its victims anew. Whoever restarts finds the nominated node in the pod, and victims
that were ended by their condition. Left out: who the victims are (`dray.core.preemption`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from dray.api.disruption import DISRUPTION_TARGET, PREEMPTION
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.reasons import wording
from dray.api.times import timestamp
from dray.api.types.core import Pod, PodCondition, PodStatus
from dray.api.types.meta import Condition
from dray.api.types.scheduling import PodGroup, PodGroupStatus
from dray.client import Client, change_status, with_conditions
from dray.client.events import EventRecorder
from dray.core.attempt import PreemptionPlan
from dray.core.core import SchedulerCore
from dray.core.queue import Waiting
from dray.core.victims import Victim
from dray.scheduler.metrics import PREEMPTION_VICTIMS
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

FindGroup = Callable[[Pod], PodGroup | None]


class Preempting:
    """Ends victims for the pods of one scheduler."""

    def __init__(
        self, client: Client, core: SchedulerCore, tasks: Tasks, recorder: EventRecorder, group_of: FindGroup
    ) -> None:
        self._client = client
        self._core = core
        self._tasks = tasks
        self._recorder = recorder
        self._group_of = group_of

    def start(self, waiting: Waiting, plan: PreemptionPlan) -> None:
        """Follow a plan: keep the place now, and write in the background."""
        log.info("pod %s: preempting %d pods on node %s", waiting.pod.metadata.name, len(plan.pods), plan.node)
        others = self._core.preempt(waiting, plan)
        if plan.victims:
            PREEMPTION_VICTIMS.observe(len(plan.pods))
        self._tasks.start(self._follow(waiting.pod, plan, others))

    def unnominate(self, pod: Pod) -> None:
        """Take the nominated node out of a pod's status."""
        self._tasks.start(self._unnominate(pod))

    async def _unnominate(self, pod: Pod) -> None:
        await self._renominate(pod, "")

    async def _follow(self, pod: Pod, plan: PreemptionPlan, others: Sequence[Pod]) -> None:
        spared = plan.pods
        try:
            if await self._renominate(pod, plan.node):
                await asyncio.gather(*(self._renominate(other, "") for other in others))
                left = await asyncio.gather(*(self._end(victim, pod, plan.node) for victim in plan.victims))
                spared = tuple(one for some in left for one in some)
        finally:
            if plan.victims:
                self._core.now = time.monotonic()
                self._core.preempted(pod.metadata.uid, spared)

    async def _renominate(self, pod: Pod, node: str) -> bool:
        """Write the nominated node of a pod; whether the pod is there and has it now."""
        try:
            written = await change_status(self._client, pod, partial(_nominated, node=node))
        except (NotFound, Conflict):
            return False  # gone, or another pod of the same name
        except ApiError as error:
            log.warning("could not write the nominated node of %s: %s", pod.metadata.name, error)
            return False
        return written.metadata.uid == pod.metadata.uid and written.metadata.deletionTimestamp is None

    async def _end(self, victim: Victim, preemptor: Pod, node: str) -> list[Pod]:
        """End the pods of a victim. Returns those for which that failed."""
        if victim.is_group and (group := self._group_of(victim.pods[0])) is not None:
            await self._tell_group(group, preemptor)
        return [pod for pod in victim.pods if not await self._end_pod(pod, preemptor, node)]

    async def _tell_group(self, group: PodGroup, preemptor: Pod) -> None:
        message = wording.preempted_for(preemptor.spec.schedulerName)
        told = Condition(
            lastTransitionTime=timestamp(time.time()),
            message=message,
            observedGeneration=group.metadata.generation,
            reason=PREEMPTION,
            status="True",
            type=DISRUPTION_TARGET,
        )

        def change(group: PodGroup) -> PodGroupStatus:
            return with_conditions(group.status, told)

        try:
            await change_status(self._client, group, change)
        except ApiError as error:
            log.info("could not tell group %s that it is preempted: %s", group.metadata.name, error)

    async def _end_pod(self, pod: Pod, preemptor: Pod, node: str) -> bool:
        """Mark a pod and delete it, with its own grace period. Returns whether it is gone or going."""
        meta = pod.metadata
        if meta.deletionTimestamp is not None:
            return True
        message = wording.preempted_for(preemptor.spec.schedulerName)
        told = PodCondition(
            None, timestamp(time.time()), message, meta.generation, PREEMPTION, "True", DISRUPTION_TARGET
        )
        try:
            await change_status(self._client, pod, lambda pod: with_conditions(pod.status, told))
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # gone, or another pod has its name
            return True
        except ApiError as error:
            log.warning("could not preempt %s/%s: %s", meta.namespace, meta.name, error)
            return False
        text = wording.preempted_by(preemptor.metadata.uid, node)
        self._recorder.record(pod, "Preempted", text, action="Preempting")
        return True


def _nominated(pod: Pod, node: str) -> PodStatus:
    """The status with a nominated node; a pod that has its node needs none."""
    return pod.status if pod.spec.nodeName else replace(pod.status, nominatedNodeName=node)
