"""CronJobs: creates a Job at every time that a schedule names.

Of the missed times only the latest is made up for, if the starting deadline and the concurrency policy allow.
Finished Jobs are kept up to the history limits. Nothing is kept in memory, because the status holds the last
scheduled time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from dray.api import cron
from dray.api.errors import AlreadyExists, NotFound
from dray.api.times import parse_timestamp, timestamp
from dray.api.types.batch import CronJob, CronJobStatus, Job
from dray.api.types.core import ObjectReference
from dray.api.wire import Tree, tree_of
from dray.controllers.context import ControllerContext
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.adoption import controlled
from dray.controllers.workloads.jobstatus import finish
from dray.controllers.workloads.loop import WorkloadLoop
from dray.controllers.workloads.pods import creation_time, is_deleting
from dray.controllers.workloads.status import write_status

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MOST_MISSED = 100  # more missed times than this indicate a wrong clock


class Moments(NamedTuple):
    """The latest scheduled time that is due, the number of times since the last Job, and the next scheduled time.

    `due` is None if no time is due, `next` if the schedule has no further time.
    """

    due: datetime | None
    missed: int
    next: datetime | None


def moments(cron_job: CronJob, now: float) -> Moments:
    """Return the latest due time since the last Job, the number of times since that Job, and the next time.

    The due time is None if no time is due. Times further back than startingDeadlineSeconds do not count. `now` is in
    seconds since 1970.
    """
    schedule = cron.parse(cron_job.spec.schedule)
    zone = ZoneInfo(cron_job.spec.timeZone) if cron_job.spec.timeZone else UTC
    last = cron_job.status.lastScheduleTime
    since = parse_timestamp(last) if last else creation_time(cron_job)
    deadline = cron_job.spec.startingDeadlineSeconds
    if deadline is not None:
        since = max(since, now - deadline)
    due, missed = None, 0
    for moment in _after(schedule, datetime.fromtimestamp(since, zone), now):
        due, missed = moment, missed + 1
    return Moments(due, missed, schedule.after(datetime.fromtimestamp(now, zone)))


def _after(schedule: cron.Schedule, start: datetime, now: float) -> Iterator[datetime]:
    """Yield the scheduled times up to now. Of those more than a year ago only the first is included.

    Times before or at `start` are left out. `now` is in seconds since 1970.
    """
    moment = schedule.after(start)
    if moment is not None and schedule.every == 0 and now - moment.timestamp() > 366 * 86400:
        yield moment
        moment = schedule.after(datetime.fromtimestamp(now - 366 * 86400, start.tzinfo))
    while moment is not None and moment.timestamp() <= now:
        yield moment
        moment = schedule.after(moment)


def job_name(cron_job: CronJob, moment: datetime) -> str:
    return f"{cron_job.metadata.name}-{int(moment.timestamp()) // 60}"


def job_tree(cron_job: CronJob, moment: datetime) -> Tree:
    template = cron_job.spec.jobTemplate
    when = moment.isoformat().replace("+00:00", "Z")
    return {
        "metadata": {
            "name": job_name(cron_job, moment),
            "namespace": cron_job.metadata.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": {**template.metadata.annotations, SCHEDULED_AT: when},
            "ownerReferences": [controller_reference(cron_job)],
        },
        "spec": tree_of(template.spec),
    }


def finished(job: Job) -> str:
    """Return how a Job ended: "Complete", "Failed", or "" if it has not ended.

    A Job that is only about to end has not ended.
    """
    end = finish(job)
    return end.type if end is not None else ""


def surplus(cron_job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished Jobs beyond the history limits, the oldest of each kind.

    Kinds are Complete and Failed; a limit that is not set keeps all Jobs of its kind.
    """
    found: list[Job] = []
    limits = {"Complete": cron_job.spec.successfulJobsHistoryLimit, "Failed": cron_job.spec.failedJobsHistoryLimit}
    for state, limit in limits.items():
        ended = sorted((job for job in jobs if finished(job) == state), key=creation_time)
        if limit is not None and len(ended) > limit:
            found += ended[: len(ended) - limit]
    return found


class CronJobController:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._loop = WorkloadLoop(context, CronJob, "cronjob", self._reconcile)
        self.run = self._loop.run
        self._client = self._loop.client
        self._loop.follow(Job)
        self._jobs = context.informers.informer(Job)

    async def _reconcile(self, cron_job: CronJob) -> float | None:
        jobs = list(controlled(self._jobs, cron_job))
        status = self._noted(cron_job, jobs)
        await self._forget(cron_job, jobs)
        wait: float | None = None
        if not is_deleting(cron_job) and not cron_job.spec.suspend:
            now = self._clock.time()
            found = moments(cron_job, now)
            status = await self._start(cron_job, found, status, now)
            wait = max(0.1, found.next.timestamp() - now) if found.next is not None else None
        await write_status(self._client, self._loop.writes, cron_job, status)
        return wait

    def _noted(self, cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
        """Return the status with the active Jobs and the last success. Records events for ended and missing Jobs."""
        known = {job.metadata.uid: job for job in jobs}
        for reference in cron_job.status.active:
            job = known.get(reference.uid)
            if job is None:
                self._loop.recorder.record(cron_job, "MissingJob", f"Active job went missing: {reference.name}")
            elif finished(job):
                text = f"Saw completed job: {reference.name}, condition: {finished(job)}"
                self._loop.recorder.record(cron_job, "SawCompletedJob", text)
        active = tuple(_reference(job) for job in jobs if not finished(job))
        ended = [job.status.completionTime for job in jobs if finished(job) == "Complete" and job.status.completionTime]
        last = max([*ended, cron_job.status.lastSuccessfulTime or ""], default="") or None
        return replace(cron_job.status, active=active, lastSuccessfulTime=last)

    async def _start(self, cron_job: CronJob, found: Moments, status: CronJobStatus, now: float) -> CronJobStatus:
        if found.missed > MOST_MISSED:
            text = f"too many missed start times: {found.missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._loop.recorder.warning(cron_job, "TooManyMissedTimes", text)
        if found.due is None:
            return status
        if status.active and cron_job.spec.concurrencyPolicy == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._loop.recorder.record(cron_job, "JobAlreadyActive", text)
            return status
        if cron_job.spec.concurrencyPolicy == "Replace":
            for reference in status.active:
                await self._delete(cron_job, reference.name)
            status = replace(status, active=())
        with suppress(AlreadyExists):
            job = await self._client.create(Job, job_tree(cron_job, found.due), namespace=cron_job.metadata.namespace)
            self._loop.writes.wrote(cron_job, job)
            self._loop.recorder.record(cron_job, "SuccessfulCreate", f"Created job {job.metadata.name}")
            status = replace(status, active=(*status.active, _reference(job)))
        return replace(status, lastScheduleTime=timestamp(found.due.timestamp()))

    async def _forget(self, cron_job: CronJob, jobs: Sequence[Job]) -> None:
        for job in surplus(cron_job, jobs):
            if not is_deleting(job):
                await self._delete(cron_job, job.metadata.name)

    async def _delete(self, cron_job: CronJob, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(Job, name, cron_job.metadata.namespace, propagation="Background")
            self._loop.recorder.record(cron_job, "SuccessfulDelete", f"Deleted job {name}")


def _reference(job: Job) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(
        apiVersion="batch/v1",
        kind="Job",
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )
