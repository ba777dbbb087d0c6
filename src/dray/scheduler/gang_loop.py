"""What follows from decisions about gangs: plans that are written, groups that are told why they wait.

Left out: the order of attempts (`loop`, `dray.core.gang_scheduling`), the writes (`gang_binding`).
"""

from __future__ import annotations

import logging
import time

from dray.api.errors import ApiError
from dray.api.podclaims import Sharing
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Client, SharedInformers
from dray.client.consumers import ClaimConsumers
from dray.core.attempt import Unfinished
from dray.core.core import SchedulerCore
from dray.core.gang_attempt import GangAttempt, GangPromise, GangRefused, PlacedMember
from dray.core.gangs import min_count
from dray.core.queue import Waiting
from dray.scheduler.background_search import SLOW_ATTEMPT_BACKOFF
from dray.scheduler.binding import PASSING, Binder, Overtaken
from dray.scheduler.conditions import NotReady
from dray.scheduler.gang_binding import GangBinder, GangPlan, GangRecovery
from dray.scheduler.group_status import GroupReporter
from dray.scheduler.metrics import GROUP_ATTEMPTS, pod_bound
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.preempting import Preempting
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

NO_PAUSE = 0.02  # seconds of an attempt that may be repeated at once


class GangLoop:
    """The gangs of one scheduler."""

    def __init__(
        self,
        core: SchedulerCore,
        client: Client,
        binder: Binder,
        sharing: Sharing,
        pod_status: PodStatusWriter,
        groups: GroupReporter,
        tasks: Tasks,
        informers: SharedInformers,
        preempting: Preempting,
        has_groups: bool,
    ) -> None:
        self._core, self._tasks, self._preempting = core, tasks, preempting
        self._pod_status, self._groups = pod_status, groups
        self._informers = informers
        self._pods, self._nodes = informers.informer(Pod), informers.informer(Node)
        self._consumers = ClaimConsumers(informers, groups=has_groups)
        self._binder = binder
        self._gangs = GangBinder(client, binder, sharing, self._remaining)

    def begin(self, waiting: Waiting) -> GangAttempt | None:
        """The joint attempt that a pod is part of; None for a pod that is placed by itself."""
        return self._core.gangs.begin(waiting)

    def go_on(self, gang: GangAttempt) -> Unfinished | None:
        """Make a part of an attempt. Returns what it waits for, or None when it is over."""
        started, profile, result = time.perf_counter(), gang.leader.pod.spec.schedulerName, "error"
        try:
            decision = self._core.gangs.decide(gang)
            gang.seconds += time.perf_counter() - started
            if isinstance(decision, Unfinished):
                return decision
            if isinstance(decision, GangRefused):
                self._refuse(gang, decision)
                result = "unschedulable"
            else:
                self._place(gang, decision)
                result = "scheduled"
        except Exception:  # one gang that cannot be judged must not keep the others waiting
            log.exception("attempt to place podgroup %s/%s failed", *gang.key)
            self._core.gangs.fail(gang)
        GROUP_ATTEMPTS.of(result, profile).add()
        return None

    def _place(self, gang: GangAttempt, promise: GangPromise) -> None:
        self._core.gangs.place(gang, promise)
        for waiting, refused in promise.refused:
            self._pod_status.report_unschedulable(waiting.pod, refused.why)
        if promise.placed:
            log.debug("podgroup %s/%s: %d pods have places", *gang.key, len(promise.placed))
            self._tasks.start(self._bind(GangPlan(gang.group, [*promise.placed])))

    def _refuse(self, gang: GangAttempt, refused: GangRefused) -> None:
        log.debug("podgroup %s/%s waits, refused by %s", *gang.key, sorted(refused.rules))
        is_long = gang.seconds > NO_PAUSE and refused.plan is None
        pause = gang.seconds * SLOW_ATTEMPT_BACKOFF if is_long else 0.0
        self._core.gangs.refuse(gang, refused, pause)
        self._groups.waits(gang.leader.pod, refused.why)
        for waiting in gang.members:
            self._pod_status.report_unschedulable(waiting.pod, refused.why)
            attempt = waiting.attempt
            if attempt is not None and attempt.claims.left_over is not None:
                self._tasks.start(self._binder.discard(attempt.claims.left_over, waiting.pod))
        if not gang.bound:
            self._tasks.start(self._release_claims(gang))
        self._preempting.after(gang, refused)
        for claim in refused.to_release:
            self._tasks.start(self._deallocate(claim))

    async def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.deallocate(claim)
        except ApiError as error:
            log.info("could not deallocate %s: %s", claim.metadata.name, error)

    async def _release_claims(self, gang: GangAttempt) -> None:
        """Release claims that an earlier plan has left, and that keep the gang where they are."""
        recovery = self._recovery()
        claims = {
            claim.metadata.uid: claim
            for waiting in gang.members
            if waiting.attempt is not None
            for claim in waiting.attempt.claims.allocated
        }
        for claim in claims.values():
            current = self._informers.informer(ResourceClaim).get(claim.metadata.namespace, claim.metadata.name)
            if current is not None and (users := recovery.plan_users(current)):
                await self._gangs.release(current, users)

    # -- plans

    async def _bind(self, plan: GangPlan) -> None:
        for member in plan.members:
            await self._pod_status.finished(member.waiting.key)
        try:
            await self._gangs.bind(plan)
        except Exception as error:  # whatever it is, the pods must not be lost
            unexpected = not isinstance(error, (ApiError, Overtaken, NotReady))
            level, name = logging.ERROR if unexpected else logging.INFO, plan.group.metadata.name
            log.log(level, "placing podgroup %s failed: %s", name, error, exc_info=unexpected)
            self._groups.failed(plan.group, error)
            plan.failed = [(member, error) for member in plan.members]
        for member, settled in plan.written:
            self._core.confirm(member.promise, settled)
            pod_bound(member.waiting, time.monotonic())
            self._pod_status.report_bound(member.promise.claims.pod, member.promise.node)
        for member, why in plan.failed:
            self._not_bound(member, why)

    def _not_bound(self, member: PlacedMember, error: Exception) -> None:
        meta = member.promise.claims.pod.metadata
        current = self._pods.get(meta.namespace, meta.name)
        is_bound = current is not None and current.metadata.uid == meta.uid and bool(current.spec.nodeName)
        if isinstance(error, NotReady):
            member.waiting.failed_on |= {member.promise.node}
        self._core.now = time.monotonic()
        self._core.gangs.undo([member], is_bound=is_bound)
        if self._core.queue.get(member.waiting.key) is not member.waiting:
            return
        if isinstance(error, NotReady):
            self._pod_status.report_devices_not_ready(member.waiting.pod, error.found)
        elif not isinstance(error, PASSING):
            self._pod_status.report_not_bound(member.waiting.pod, member.promise.node, error)

    def _remaining(self, plan: GangPlan) -> list[PlacedMember]:
        """The members whose pods and nodes are still there, if they are enough for the group as it is now."""
        meta = plan.group.metadata
        group = self._informers.informer(PodGroup).get(meta.namespace, meta.name)
        if group is None or group.metadata.uid != meta.uid:
            return []
        staying = [member for member in plan.members if self._is_there(member)]
        bound = sum(bool(pod.spec.nodeName) for pod in self._consumers.members(meta.namespace, meta.name))
        return staying if bound + len(staying) >= min_count(group) else []

    def _is_there(self, member: PlacedMember) -> bool:
        meta = member.waiting.pod.metadata
        pod = self._pods.get(meta.namespace, meta.name)
        is_same = pod is not None and pod.metadata.uid == meta.uid and pod.metadata.deletionTimestamp is None
        return is_same and self._nodes.get("", member.promise.node) is not None

    # -- at the start

    def _recovery(self) -> GangRecovery:
        groups = self._informers.informer(PodGroup)
        return GangRecovery(self._gangs, groups.get, self._consumers.members, self._pods.get)

    async def recover(self) -> None:
        """Release what an earlier scheduler has planned for gangs of which no pod is bound."""
        await self._recovery().run(self._informers.informer(ResourceClaim).list())
