"""Jobs: runs pods until enough of them have succeeded or too many have failed.

Reads informers' copies, creates and deletes pods, removes finalizers of counted pods, writes the status, and deletes
expired Jobs; the decisions are in `counting`, `completion` and `jobstatus`. Left out: Jobs with another manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.selectors import label_selector
from dray.api.types.batch import Job, JobStatus
from dray.api.types.core import Pod
from dray.background.thread import in_thread_if_large
from dray.background.turns import in_turns
from dray.client import Controller, Deltas, Key, PatchKind, key_of
from dray.controllers.context import ControllerContext
from dray.controllers.workloads.adoption import BY_CONTROLLER, Adoption, controller_of
from dray.controllers.workloads.completion import (
    JobEnd,
    Need,
    by_index,
    index_failures,
    need,
    pause,
    until_deadline,
    verdict,
)
from dray.controllers.workloads.counting import Tally, tally
from dray.controllers.workloads.jobgroups import JobGroups
from dray.controllers.workloads.jobpods import TRACKING, is_indexed, is_tracked, job_pod
from dray.controllers.workloads.jobstatus import COMPLETE, FAILED, SUSPENDED, finish, status_of, until_expired
from dray.controllers.workloads.loop import WORKERS, WorkloadLoop
from dray.controllers.workloads.podcontrol import BURST, PodControl, in_batches, namespace_ends
from dray.controllers.workloads.pods import is_active, is_deleting
from dray.controllers.workloads.status import write_status

MANAGER = "kubernetes.io/job-controller"


class _Managed(NamedTuple):
    """Result of creating and deleting pods: number of created pods, seconds until the next check, and an error.

    `again` is None if no check is needed by itself, `error` if there was none.
    """

    created: int = 0
    again: float | None = None
    error: ApiError | None = None


class JobController:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._loop = WorkloadLoop(context, Job, "job", self._reconcile)
        self._client = self._loop.client
        self._loop.follow(Pod)
        self._pods = context.informers.informer(Pod)
        self._adoption = Adoption(self._client, Pod, self._pods, self._loop.writes, finalizer=TRACKING)
        self._control = PodControl(self._client, self._loop.recorder, self._loop.writes)
        self._groups = JobGroups(context, self._loop) if context.gates.served("WorkloadWithJob") else None
        self._orphans: Controller[Key | str] = context.controller("job_orphan_pod", self._free, WORKERS)
        self._pods.add_handler(self._on_pods)
        self._loop.owners.add_handler(self._on_jobs)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run())
            group.create_task(self._orphans.run())

    # -- pods whose Job is gone

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for _, new in deltas:
            if new is not None and is_tracked(new) and self._is_orphan(new):
                self._orphans.queue.add(key_of(new))

    def _on_jobs(self, deltas: Deltas[Job]) -> None:
        for old, new in deltas:
            if new is None and old is not None:
                self._orphans.queue.add(old.metadata.uid)

    def _is_orphan(self, pod: Pod) -> bool:
        owner = controller_of(pod.metadata)
        if owner is None:
            return True
        job = self._loop.owners.get(pod.metadata.namespace, owner.name) if owner.kind == "Job" else None
        return owner.kind == "Job" and (job is None or job.metadata.uid != owner.uid)

    async def _free(self, item: Key | str) -> None:
        """Remove the finalizer of an orphaned pod (given by key), or queue all pods of a deleted Job (given by uid)."""
        if isinstance(item, str):
            async for some in in_turns(self._pods.by_index(BY_CONTROLLER, item)):
                for pod in some:
                    self._orphans.queue.add(key_of(pod))
        else:
            await self._free_pod(item)

    async def _free_pod(self, key: Key) -> None:
        """Remove a pod's finalizer if its Job is gone. The server is asked, since a pod may be seen before its Job.

        Nothing happens if the pod is gone or has no finalizer.
        """
        pod = self._pods.get(*key)
        if pod is None or not is_tracked(pod) or not self._is_orphan(pod):
            return
        owner = controller_of(pod.metadata)
        if owner is not None:
            try:
                if (await self._client.get(Job, owner.name, pod.metadata.namespace)).metadata.uid == owner.uid:
                    return
            except NotFound:
                pass
        await self._strip(pod)

    # -- one job

    async def _reconcile(self, job: Job) -> float | None:
        if job.spec.managedBy not in (None, MANAGER):
            return None
        if finish(job) is not None:
            return await self._expire(job)
        pods = await self._adoption.claim(job, label_selector(job.spec.selector))
        if is_deleting(job):
            await self._strip_all(job, pods)
            return None
        now = self._clock.time()
        count, active, end, wanted = await in_thread_if_large(len(pods), _decide, job, pods, now)
        if end is None:
            group = await self._groups.group_of(job, pods) if self._groups is not None else ""
            managed = await self._manage(job, wanted, pods, now, group)
        else:
            managed = await self._end(job, active, end)
        status = await in_thread_if_large(len(pods), status_of, job, count, pods, active, managed.created, end, now)
        await write_status(self._client, self._loop.writes, job, status)
        self._announce(job, status)
        await self._strip_all(job, count.release)
        if managed.error is not None and not namespace_ends(managed.error):
            raise managed.error
        return min((wait for wait in (managed.again, until_deadline(job, now)) if wait), default=None)

    async def _expire(self, job: Job) -> float | None:
        """Delete a finished Job whose time to live is over. Returns the seconds until then.

        Returns None if the Job was deleted now, is being deleted, has not finished, or is kept for ever.
        """
        wait = until_expired(job, self._clock.time())
        if wait is None or is_deleting(job):
            return None
        if wait:
            return wait
        meta = job.metadata
        await self._client.delete(Job, meta.name, meta.namespace, uid=meta.uid, propagation="Foreground")
        return None

    async def _manage(self, job: Job, wanted: Need, pods: Sequence[Pod], now: float, group: str) -> _Managed:
        if wanted.delete:
            return _Managed(error=await self._discard(job, wanted.delete))
        due, again = await in_thread_if_large(len(pods), _due, job, wanted.create, pods, now)
        made = await in_thread_if_large(len(pods), by_index, pods) if is_indexed(job) else {}
        outcome = await self._control.create(
            job, due, lambda index: job_pod(job, index, index_failures(job, made.get(index, ())), group)
        )
        return _Managed(outcome.done, again, outcome.error)

    async def _end(self, job: Job, active: Sequence[Pod], end: JobEnd) -> _Managed:
        """Delete the pods that still run at the Job's end; if the Job failed, they count as failed. Returns an error."""
        if end.success:
            return _Managed(error=await self._discard(job, active))
        return _Managed(error=(await self._control.delete(job, active)).error)

    async def _discard(self, job: Job, pods: Sequence[Pod]) -> ApiError | None:
        """Delete pods without counting them, at most `BURST` in one call. Returns the first error, or None.

        The tracking finalizer of these pods is removed first.
        """
        pods = pods[:BURST]
        await self._strip_all(job, pods)
        return (await self._control.delete(job, pods)).error

    async def _strip_all(self, job: Job, pods: Iterable[Pod]) -> None:
        """Remove the finalizer of the first `BURST` tracked pods; the rest follows once the informer shows these."""

        async def strip(pod: Pod) -> None:
            if (stripped := await self._strip(pod)) is not None:
                self._loop.writes.wrote(job, stripped)

        await in_batches([*islice(filter(is_tracked, pods), BURST)], strip)

    async def _strip(self, pod: Pod) -> Pod | None:
        """Remove the tracking finalizer of a pod. Returns the pod, or None if it is gone.

        The pod counts as gone too if another pod has its name now.
        """
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}
        try:
            return await self._client.patch(Pod, meta.name, patch, meta.namespace, kind=PatchKind.STRATEGIC)
        except (NotFound, Conflict):
            return None  # the pod is gone, or another pod has its name

    def _announce(self, job: Job, status: JobStatus) -> None:
        """Record events for conditions that are new in the status."""
        before = {(condition.type, condition.status) for condition in job.status.conditions}
        for condition in status.conditions:
            if (condition.type, condition.status) in before:
                continue
            if condition.type == COMPLETE:
                self._loop.recorder.record(job, "Completed", "Job completed")
            elif condition.type == FAILED:
                self._loop.recorder.warning(job, condition.reason, condition.message)
            elif condition.type == SUSPENDED:
                reason = "Suspended" if condition.status == "True" else "Resumed"
                self._loop.recorder.record(job, reason, condition.message)


class _Decision(NamedTuple):
    tally: Tally
    active: list[Pod]
    end: JobEnd | None
    wanted: Need  # empty once the Job has ended


def _decide(job: Job, pods: Sequence[Pod], now: float) -> _Decision:
    """Return the counts of a Job's pods, the Job's end if it is decided, and otherwise the pods that the Job needs.

    `now` is in seconds since 1970.
    """
    count = tally(job, pods)
    active = [pod for pod in pods if is_active(pod)]
    end = verdict(job, count, active, now)
    return _Decision(count, active, end, Need() if end is not None else need(job, count, active, pods, now))


def _due(
    job: Job, wanted: Sequence[int | None], pods: Sequence[Pod], now: float
) -> tuple[Sequence[int | None], float | None]:
    """Return the wanted pods that may be created now, and the seconds until the next check, or None.

    Failures delay pods of their own index if there is a limit per index, otherwise all pods.
    """
    if not wanted:
        return (), None
    if job.spec.backoffLimitPerIndex is None:
        wait = pause(job, pods, now)
        return ((), wait) if wait else (wanted, None)
    made = by_index(pods)
    waits = {index: pause(job, made.get(index, ()), now) for index in wanted}
    later = [wait for wait in waits.values() if wait]
    return [index for index, wait in waits.items() if not wait], min(later, default=None)
