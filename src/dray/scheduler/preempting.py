"""Writes of a preemption: the nominated node of the preemptor, or of each pod of a gang, then the eviction of each
victim.

The preemptor is not tried again until every request was answered. If a victim cannot be evicted, the preemptor is
retried after a backoff and finds its victims anew. A restarted scheduler learns the nominated node from the pod, and
evicted victims from their DisruptionTarget condition. Left out: choosing victims (`dray.core.preemption`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from dray.core.gang_attempt import GangAttempt, GangRefused, GroupPreemptionPlan
from dray.core.queue import Waiting
from dray.core.victims import Victim
from dray.scheduler.metrics import GROUP_PREEMPTION_ATTEMPTS, GROUP_PREEMPTION_VICTIMS, PREEMPTION_VICTIMS
from dray.scheduler.tasks import Tasks, each

log = logging.getLogger(__name__)

FindGroup = Callable[[Pod], PodGroup | None]


WHOLE_CLUSTER = "cluster"  # place named in the event of a victim when a gang preempts


@dataclass(frozen=True)
class Order:
    """Preemption to carry out: preemptor, nominated nodes and victims. For a gang, `preemptor` is one of its pods."""

    preemptor: Pod
    where: str
    places: tuple[tuple[Pod, str], ...]  # pods with their nominated nodes
    victims: tuple[Victim, ...]
    others: Sequence[Pod]  # pods that lose their nominations
    is_group: bool = False


def _nothing(spared: Sequence[Pod]) -> None:
    """Do nothing. Used as the callback of a preemption without victims."""


class Preempting:
    """Carries out the preemptions of one scheduler."""

    def __init__(
        self, client: Client, core: SchedulerCore, tasks: Tasks, recorder: EventRecorder, group_of: FindGroup
    ) -> None:
        self._client = client
        self._core = core
        self._tasks = tasks
        self._recorder = recorder
        self._group_of = group_of

    def start(self, waiting: Waiting, plan: PreemptionPlan) -> None:
        """Carry out a preemption plan of a pod: nominate the pod in the core now, and write in the background."""
        log.info("pod %s: preempting %d pods on node %s", waiting.pod.metadata.name, len(plan.pods), plan.node)
        others = self._core.preempt(waiting, plan)
        if plan.victims:
            PREEMPTION_VICTIMS.observe(len(plan.pods))
        done = partial(self._core.preempted, waiting.key) if plan.victims else _nothing
        self._follow(Order(waiting.pod, plan.node, ((waiting.pod, plan.node),), plan.victims, others), done)

    def after(self, gang: GangAttempt, refused: GangRefused) -> None:
        """Carry out the preemption part of a gang's refusal: start its plan, or remove outdated nominated nodes."""
        plan, why = refused.plan, refused.why.preemption
        if plan is not None or why is not None:
            GROUP_PREEMPTION_ATTEMPTS.inc()
        if plan is not None:
            self._start_for_gang(gang, plan)
        elif why is not None:
            for waiting in gang.members:
                if waiting.pod.status.nominatedNodeName:
                    self.unnominate(waiting.pod)

    def _start_for_gang(self, gang: GangAttempt, plan: GroupPreemptionPlan) -> None:
        """Carry out a preemption plan of a gang: nominate its pods in the core now, and write in the background."""
        log.info("podgroup %s/%s: preempting %d pods", *gang.key, len(plan.pods))
        others = self._core.gangs.preempt(gang, plan)
        if plan.victims:
            GROUP_PREEMPTION_VICTIMS.observe(len(plan.pods))
        places = tuple((member.waiting.pod, member.promise.node) for member in plan.placed)
        done = partial(self._core.gangs.preempted, gang) if plan.victims else _nothing
        self._follow(Order(gang.leader.pod, WHOLE_CLUSTER, places, plan.victims, others, is_group=True), done)

    def unnominate(self, pod: Pod) -> None:
        """Clear the nominated node in a pod's status in the background."""
        self._tasks.start(self._unnominate(pod))

    def expire(self) -> None:
        """End nominations whose deadline has passed, in the core and in the pods' status."""
        for pod in self._core.expire_nominations():
            log.warning("%s/%s: its nominated node is given up", pod.metadata.namespace, pod.metadata.name)
            self.unnominate(pod)

    async def _unnominate(self, pod: Pod) -> None:
        """Clear the nominated node in a pod's status, unless the pod was nominated again."""
        if self._core.state.nominations.get(pod.metadata.uid) is None:
            await self._renominate(pod, "")

    def _follow(self, order: Order, done: Callable[[Sequence[Pod]], None]) -> None:
        self._tasks.start(self._write(order, done))

    async def _write(self, order: Order, done: Callable[[Sequence[Pod]], None]) -> None:
        """Write nominated nodes and evict the victims.

        At the end, calls `done` with the pods that could not be evicted.
        """
        spared: Sequence[Pod] = [pod for victim in order.victims for pod in victim.pods]
        try:
            if await self._nominate(order):
                await each(order.others, lambda pod: self._renominate(pod, ""))
                left: list[Pod] = []

                async def end(victim: Victim) -> None:
                    left.extend(await self._end(victim, order))

                await each(order.victims, end)
                spared = left
        finally:
            self._core.now = time.monotonic()
            done(spared)

    async def _nominate(self, order: Order) -> bool:
        """Write the nominated nodes. Returns whether all pods exist and have them now.

        Without victims, skips pods whose status already names the node.
        """
        failed: list[Pod] = []

        async def write(place: tuple[Pod, str]) -> None:
            pod, node = place
            is_needed = order.victims or pod.status.nominatedNodeName != node
            if is_needed and not await self._renominate(pod, node):
                failed.append(pod)

        await each(order.places, write)
        return not failed

    async def _renominate(self, pod: Pod, node: str) -> bool:
        """Write the nominated node of a pod.

        Returns whether the pod exists and is not being deleted, and False if the write failed. A pod that is bound
        already counts as written.
        """
        try:
            written = await change_status(self._client, pod, partial(_nominated, node=node))
        except (NotFound, Conflict):
            return False  # the pod is gone or was replaced
        except ApiError as error:
            log.warning("could not write the nominated node of %s: %s", pod.metadata.name, error)
            return False
        return written.metadata.uid == pod.metadata.uid and written.metadata.deletionTimestamp is None

    async def _end(self, victim: Victim, order: Order) -> list[Pod]:
        """Evict the pods of a victim. Returns the pods whose eviction failed, empty if all succeeded.

        For a group, its condition is written first.
        """
        if victim.is_group and (group := self._group_of(victim.pods[0])) is not None:
            await self._tell_group(group, order)
        return [pod for pod in victim.pods if not await self._end_pod(pod, order)]

    async def _tell_group(self, group: PodGroup, order: Order) -> None:
        """Write the DisruptionTarget condition of a PodGroup that is preempted as a whole. Only logs errors."""
        message = wording.preempted_for(order.preemptor.spec.schedulerName, group=order.is_group)
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

    async def _end_pod(self, pod: Pod, order: Order) -> bool:
        """Add the DisruptionTarget condition to a pod and delete it with its own grace period.

        Returns whether the pod is gone or being deleted: False only if the server refused with an error. Nothing is
        written for a pod that is already being deleted.
        """
        meta = pod.metadata
        if meta.deletionTimestamp is not None:
            return True
        message = wording.preempted_for(order.preemptor.spec.schedulerName, group=order.is_group)
        told = PodCondition(
            None, timestamp(time.time()), message, meta.generation, PREEMPTION, "True", DISRUPTION_TARGET
        )
        try:
            await change_status(self._client, pod, lambda pod: with_conditions(pod.status, told))
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # the pod is gone or was replaced
            return True
        except ApiError as error:
            log.warning("could not preempt %s/%s: %s", meta.namespace, meta.name, error)
            return False
        text = wording.preempted_by(order.preemptor.metadata.uid, order.where)
        self._recorder.record(pod, "Preempted", text, action="Preempting")
        return True


def _nominated(pod: Pod, node: str) -> PodStatus:
    """Return the pod status with the nominated node, or the unchanged status if the pod is already bound."""
    return pod.status if pod.spec.nodeName else replace(pod.status, nominatedNodeName=node)
