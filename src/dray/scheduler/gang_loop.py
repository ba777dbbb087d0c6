"""Follow-up of decisions about gangs: plans are written, and PodGroups are told why they wait.

Left out: the order of attempts (`loop`, `dray.core.gang_scheduling`) and the writes (`gang_binding`).
"""

from __future__ import annotations

import asyncio
import logging
import time

from dray.api.errors import ApiError
from dray.api.podclaims import Sharing, is_finished
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Client, Deltas, SharedInformers
from dray.core.attempt import Unfinished
from dray.core.core import SchedulerCore
from dray.core.gang_attempt import GangAttempt, GangPromise, GangRefused, PlacedMember
from dray.core.gangs import GroupKey, min_count
from dray.core.objects import ObjectLookup
from dray.core.queue import Waiting
from dray.scheduler.background_search import SLOW_ATTEMPT_BACKOFF
from dray.scheduler.binding import PASSING, Binder, Overtaken
from dray.scheduler.conditions import NotReady
from dray.scheduler.gang_binding import GangBinder, GangPlan
from dray.scheduler.gang_recovery import GangRecovery
from dray.scheduler.group_status import GroupReporter
from dray.scheduler.metrics import GROUP_ATTEMPTS, pod_bound
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.preempting import Preempting
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

NO_PAUSE = 0.02  # attempts that take fewer seconds may be repeated at once
LOOKS_APART = 0.5  # seconds between two looks for leftovers of plans


class GangLoop:
    """Carries out the decisions about gangs of one scheduler."""

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
        objects: ObjectLookup,
    ) -> None:
        self._core, self._tasks, self._preempting = core, tasks, preempting
        self._pod_status, self._groups = pod_status, groups
        self._informers = informers
        self._pods, self._nodes = informers.informer(Pod), informers.informer(Node)
        self._objects = objects
        self._binder = binder
        self._plans: dict[GroupKey, list[GangPlan]] = {}  # plans that are being written
        self._gangs = GangBinder(client, binder, sharing, self._remaining, self._is_bound)
        self._recovery = GangRecovery(self._gangs, informers, objects)

    def listen(self) -> None:
        """Add handlers for changes that may invalidate a plan, or leave claims allocated for a gang without a bound
        pod.
        """
        self._pods.add_handler(self._on_pods)
        self._nodes.add_handler(self._on_nodes)
        self._informers.informer(PodGroup).add_handler(self._on_groups)

    def begin(self, waiting: Waiting) -> GangAttempt | None:
        """Return the joint attempt that a pod is part of, or None if the pod is placed on its own."""
        return self._core.gangs.begin(waiting)

    def go_on(self, gang: GangAttempt) -> Unfinished | None:
        """Continue a joint attempt and carry out its decision.

        Returns Unfinished if the attempt must continue later, or None if it has ended. Errors are logged, and end the
        attempt.
        """
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
        except Exception:  # an error in one gang must not block other gangs
            log.exception("attempt to place podgroup %s/%s failed", *gang.key)
            self._core.gangs.fail(gang)
        GROUP_ATTEMPTS.of(result, profile).add()
        return None

    def _place(self, gang: GangAttempt, promise: GangPromise) -> None:
        """Count the gang's pods on their nodes, report refused pods, and start writing the plan."""
        self._core.gangs.place(gang, promise)
        for waiting, refused in promise.refused:
            self._pod_status.report_unschedulable(waiting.pod, refused.why)
        if promise.placed:
            log.debug("podgroup %s/%s: %d pods have places", *gang.key, len(promise.placed))
            self._tasks.start(self._bind(GangPlan(gang.group, [*promise.placed])))

    def _refuse(self, gang: GangAttempt, refused: GangRefused) -> None:
        """Requeue a refused gang, report the reason, and start preemption and deallocation if these may help."""
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
            if attempt is not None and (claim := self._core.state.devices.expendable(attempt)) is not None:
                self._tasks.start(self._deallocate(claim))
        if not gang.bound:
            self._recovery.suspect(gang.key)
        self._preempting.after(gang, refused)
        for claim in refused.to_release:
            self._tasks.start(self._deallocate(claim))

    async def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.deallocate(claim)
        except ApiError as error:
            log.info("could not deallocate %s: %s", claim.metadata.name, error)

    # -- plans

    async def _bind(self, plan: GangPlan) -> None:
        """Write a plan, then record bound pods and undo failed ones."""
        self._plans.setdefault(plan.key, []).append(plan)
        for member in plan.members:
            await self._pod_status.finished(member.waiting.key)
        try:
            await self._gangs.bind(plan)
        except Exception as error:  # after any error, the pods must be retried
            unexpected = not isinstance(error, (ApiError, Overtaken, NotReady))
            level, name = logging.ERROR if unexpected else logging.INFO, plan.group.metadata.name
            log.log(level, "placing podgroup %s failed: %s", name, error, exc_info=unexpected)
            self._groups.failed(plan.group, error)
            plan.failed = [(member, error) for member in plan.members]
            if not plan.is_released:
                self._recovery.suspect(plan.key)
        finally:
            self._forget(plan)
        for member, settled in plan.written:
            self._core.confirm(member.promise, settled)
            pod_bound(member.waiting, time.monotonic())
            self._pod_status.report_bound(member.promise.claims.pod, member.promise.node)
        for member, why in plan.failed:
            self._not_bound(member, why)

    def _not_bound(self, member: PlacedMember, error: Exception) -> None:
        """Undo the placement of a pod that could not be bound, and report the error."""
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

    def _forget(self, plan: GangPlan) -> None:
        others = [other for other in self._plans.pop(plan.key) if other is not plan]
        if others:
            self._plans[plan.key] = others

    def _remaining(self, plan: GangPlan) -> list[PlacedMember]:
        """Return the members that have not failed and whose pods and nodes still exist.

        Empty if they are too few to reach minCount with the bound pods, or if the PodGroup is gone or was replaced.
        """
        group = self._informers.informer(PodGroup).get(*plan.key)
        if group is None or group.metadata.uid != plan.group.metadata.uid:
            return []
        failed = {member.waiting.key for member, _ in plan.failed}
        staying = [member for member in plan.members if member.waiting.key not in failed and self._is_there(member)]
        return staying if self._bound(plan.key) + len(staying) >= min_count(group) else []

    def _bound(self, key: GroupKey) -> int:
        """Return the number of a group's pods that have a node, by namespace and name of the group."""
        return sum(bool(pod.spec.nodeName) for pod in self._objects.members(*key))

    def _is_bound(self, key: GroupKey) -> bool:
        return self._bound(key) > 0

    def _is_there(self, member: PlacedMember) -> bool:
        """Whether the pod of a member exists without deletion timestamp and the promised node exists."""
        meta = member.waiting.pod.metadata
        pod = self._pods.get(meta.namespace, meta.name)
        is_same = pod is not None and pod.metadata.uid == meta.uid and pod.metadata.deletionTimestamp is None
        return is_same and self._nodes.get("", member.promise.node) is not None

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        """Check plans and leftovers of gangs whose pods have ended or are being deleted."""
        keys: set[GroupKey] = set()
        for old, new in deltas:
            left = old if new is None or is_finished(new) or new.metadata.deletionTimestamp is not None else None
            if left is not None and (key := self._core.state.gangs.key_of(left)) is not None:
                keys.add(key)
        for key in keys:
            self._recovery.suspect(key)
            self._check_plans(key)

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        """Check the plans of changed PodGroups."""
        for old, new in deltas if self._plans else ():
            group = new or old
            assert group is not None
            self._check_plans((group.metadata.namespace, group.metadata.name))

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        """Check all plans when a node is deleted."""
        if self._plans and any(new is None for _, new in deltas):
            for key in [*self._plans]:
                self._check_plans(key)

    def _check_plans(self, key: GroupKey) -> None:
        """End the waits for devices of those plans that have too few members left."""
        for plan in self._plans.get(key, ()):
            if not self._remaining(plan):
                plan.changed.set()

    # -- leftovers of plans

    async def recover(self) -> None:
        """Release claims that an earlier scheduler planned for gangs without a bound pod."""
        await self._recovery.run()

    async def release_leftovers(self) -> None:
        """Regularly release leftovers of plans, until cancelled."""
        while True:
            await asyncio.sleep(LOOKS_APART)
            await self._recovery.look_again(self._plans.keys())
