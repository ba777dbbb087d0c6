"""Computes a Job's status: counts, times, and the conditions from suspended to complete. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.times import parse_timestamp, timestamp
from dray.api.types.batch import Job, JobCondition, JobStatus
from dray.api.types.core import Pod
from dray.controllers.workloads import indexes
from dray.controllers.workloads.completion import JobEnd
from dray.controllers.workloads.counting import Tally
from dray.controllers.workloads.jobpods import is_indexed
from dray.controllers.workloads.pods import is_ready, is_terminating

COMPLETE = "Complete"
FAILED = "Failed"
SUSPENDED = "Suspended"

JobConditions = tuple[JobCondition, ...]


def finish(job: Job) -> JobCondition | None:
    """Return the condition Complete or Failed if the Job has finished, otherwise None. Its pods have stopped by then."""
    return next((c for c in job.status.conditions if c.type in (COMPLETE, FAILED) and c.status == "True"), None)


def until_expired(job: Job, now: float) -> float | None:
    """Return the seconds for which a finished Job is still kept: 0 if its time is over.

    Returns None if the Job has not finished or is kept for ever. `now` is in seconds since 1970.
    """
    end = finish(job)
    if end is None or end.lastTransitionTime is None or job.spec.ttlSecondsAfterFinished is None:
        return None
    return max(0.0, parse_timestamp(end.lastTransitionTime) + job.spec.ttlSecondsAfterFinished - now)


def status_of(
    job: Job, count: Tally, pods: Sequence[Pod], active: Sequence[Pod], created: int, end: JobEnd | None, now: float
) -> JobStatus:
    """Return the status of a Job. `end` is the Job's end if it is decided.

    `created` pods were created just now and are not in `pods`.
    """
    before = job.status
    conditions = _suspension(job, before.conditions, now)
    terminating = sum(map(is_terminating, pods))
    over = end is not None and not active and not terminating and count.settled
    if end is not None:
        conditions = _with(conditions, now, end.type, "True", end.reason, end.message)
    if end is not None and over:
        conditions = _with(conditions, now, COMPLETE if end.success else FAILED, "True", end.reason, end.message)
    started = None if job.spec.suspend and end is None else before.startTime or timestamp(now)
    return JobStatus(
        active=len(active) + created,
        ready=sum(map(is_ready, active)),
        terminating=terminating,
        succeeded=count.succeeded,
        failed=count.failed,
        completedIndexes=indexes.written(count.completed) if is_indexed(job) else "",
        failedIndexes=_failed_indexes(job, count),
        uncountedTerminatedPods=count.uncounted,
        startTime=started,
        completionTime=timestamp(now) if over and end is not None and end.success else None,
        conditions=conditions,
    )


def _failed_indexes(job: Job, count: Tally) -> str | None:
    return indexes.written(count.failed_indexes) if job.spec.backoffLimitPerIndex is not None else None


def _suspension(job: Job, conditions: JobConditions, now: float) -> JobConditions:
    known = any(c.type == SUSPENDED for c in conditions)
    if job.spec.suspend:
        return _with(conditions, now, SUSPENDED, "True", "JobSuspended", "Job suspended")
    if known:
        return _with(conditions, now, SUSPENDED, "False", "JobResumed", "Job resumed")
    return conditions


def _with(conditions: JobConditions, now: float, type_: str, status: str, reason: str, message: str) -> JobConditions:
    """Return the conditions with this condition set. If the condition already has this status, nothing changes.

    `now` is in seconds since 1970 and becomes the time of the transition.
    """
    for condition in conditions:
        if condition.type == type_ and condition.status == status:
            return conditions
    moment = timestamp(now)
    condition = JobCondition(
        type=type_, status=status, reason=reason, message=message, lastProbeTime=moment, lastTransitionTime=moment
    )
    return (*(c for c in conditions if c.type != type_), condition)
