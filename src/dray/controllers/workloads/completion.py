"""Decides whether a Job has ended, and if not, which pods it needs now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.times import parse_timestamp
from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.controllers.workloads import indexes
from dray.controllers.workloads.counting import Tally
from dray.controllers.workloads.jobpods import (
    ended_at,
    failures_before,
    has_failed,
    has_succeeded,
    index_of,
    is_indexed,
)
from dray.controllers.workloads.podcontrol import BURST
from dray.controllers.workloads.pods import deletion_order, is_terminating

FAILURE_TARGET = "FailureTarget"
SUCCESS = "SuccessCriteriaMet"
# The pause after a failure, which doubles with each further failure. Kubernetes' figures.
_FIRST_PAUSE_SECONDS = 10.0
_LAST_PAUSE_SECONDS = 600.0


class JobEnd(NamedTuple):
    """The end of a Job whose last pods may still run: type, reason and message of the condition that announces it.

    The type is FailureTarget or SuccessCriteriaMet.
    """

    type: str
    reason: str
    message: str

    @property
    def success(self) -> bool:
        return self.type == SUCCESS


def verdict(job: Job, count: Tally, active: Sequence[Pod], now: float) -> JobEnd | None:
    """Return the end of the Job, or None while the Job continues. An end that was announced does not change.

    `now` is in seconds since 1970.
    """
    for condition in job.status.conditions:
        if condition.type in (FAILURE_TARGET, SUCCESS) and condition.status == "True":
            return JobEnd(condition.type, condition.reason, condition.message)
    return _failure(job, count, active, now) or _success(job, count, active)


def _failure(job: Job, count: Tally, active: Sequence[Pod], now: float) -> JobEnd | None:
    if count.failed_by_policy:
        return JobEnd(FAILURE_TARGET, "PodFailurePolicy", count.failed_by_policy)
    limit = job.spec.backoffLimit
    if limit is not None and (count.all_failed > limit or _restarted_too_often(job, active, limit)):
        return JobEnd(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if until_deadline(job, now) == 0.0:
        return JobEnd(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
    if not count.failed_indexes:
        return None
    most = job.spec.maxFailedIndexes
    if most is not None and len(count.failed_indexes) > most:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return JobEnd(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
    if len(count.failed_indexes) + len(count.completed) >= (job.spec.completions or 0):
        return JobEnd(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")
    return None


def _restarted_too_often(job: Job, active: Sequence[Pod], limit: int) -> bool:
    """Whether restarts of containers reach the backoff limit; counted only with restartPolicy OnFailure.

    A limit of 0 is reached by the first restart.
    """
    if job.spec.template.spec.restartPolicy != "OnFailure":
        return False
    statuses = (s for pod in active for s in (*pod.status.initContainerStatuses, *pod.status.containerStatuses))
    restarts = sum(status.restartCount for status in statuses)
    return restarts >= max(limit, 1)


def until_deadline(job: Job, now: float) -> float | None:
    """Return the seconds until activeDeadlineSeconds, or None without deadline or start, or while suspended.

    The result is 0 once the deadline has passed. `now` is in seconds since 1970.
    """
    seconds, started = job.spec.activeDeadlineSeconds, job.status.startTime
    if seconds is None or started is None or job.spec.suspend:
        return None
    return max(0.0, parse_timestamp(started) + seconds - now)


def _success(job: Job, count: Tally, active: Sequence[Pod]) -> JobEnd | None:
    for number, rule in enumerate(job.spec.successPolicy.rules if job.spec.successPolicy is not None else ()):
        counted = count.completed
        if rule.succeededIndexes is not None:
            wanted = indexes.Runs(rule.succeededIndexes)
            counted = frozenset(index for index in counted if index in wanted)
            enough = wanted.count if rule.succeededCount is None else rule.succeededCount
        else:
            enough = rule.succeededCount or 0
        if len(counted) >= enough:
            return JobEnd(SUCCESS, "SuccessPolicy", f"Matched rules at index {number}")
    completions, done = job.spec.completions, count.all_succeeded
    if (done > 0 and not active) if completions is None else done >= completions:
        return JobEnd(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


class Need(NamedTuple):
    """Pods to delete and pods to create. A pod to create is given by its index, or None for Jobs without indexes."""

    delete: Sequence[Pod] = ()
    create: Sequence[int | None] = ()


def need(job: Job, count: Tally, active: Sequence[Pod], pods: Sequence[Pod], now: float) -> Need:
    """Return the pods to delete and to create so that the right number of pods is active.

    A suspended Job needs no pods. Each pod to create is given by its index, or by None if the Job is not indexed.
    `now` is in seconds since 1970.
    """
    if job.spec.suspend:
        return Need(delete=active)
    wanted = _wanted(job, count, active)
    # Sorting thousands of pods takes long; without surplus pods the order does not matter.
    ordered = deletion_order(active, active, now) if is_indexed(job) or len(active) > wanted else active
    surplus = _misplaced(job, ordered) if is_indexed(job) else []
    going = {pod.metadata.uid for pod in surplus}
    kept = [pod for pod in ordered if pod.metadata.uid not in going]
    too_many = max(0, len(kept) - wanted)
    surplus += kept[:too_many]
    kept = kept[too_many:]
    ending = [pod for pod in pods if is_terminating(pod)] if job.spec.podReplacementPolicy == "Failed" else []
    missing = max(0, wanted - len(kept) - len(ending))
    if job.spec.backoffLimitPerIndex is None:  # otherwise pauses apply to each index on its own
        missing = min(BURST, missing)
    if not is_indexed(job):
        return Need(surplus, [None] * missing)
    taken = {index_of(pod) for pod in (*kept, *ending)} | count.completed | count.failed_indexes
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    return Need(surplus, [index for _, index in zip(range(missing), free, strict=False)])


def _wanted(job: Job, count: Tally, active: Sequence[Pod]) -> int:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:  # a work queue: after the first success no new pods are created
        return min(len(active), parallelism) if count.all_succeeded else parallelism
    done = count.all_succeeded + len(count.failed_indexes)
    return max(0, min(job.spec.completions - done, parallelism))


def _misplaced(job: Job, active: Sequence[Pod]) -> list[Pod]:
    """Return the pods without a valid index and duplicates of an index, of which the last in `active` is kept."""
    seen: set[int] = set()
    found: list[Pod] = []
    for pod in reversed(active):
        index = index_of(pod)
        if index is None or index >= (job.spec.completions or 0) or index in seen:
            found.append(pod)
        else:
            seen.add(index)
    return found


def pause(job: Job, pods: Sequence[Pod], now: float) -> float:
    """Return the seconds until failed pods may be replaced. The pause grows with each failure since the last success.

    Returns 0 if no pod has failed since then or the pause is over. `now` is in seconds since 1970.
    """
    last_success = max((ended_at(pod) for pod in pods if has_succeeded(pod)), default=0.0)
    failures = [ended for pod in pods if has_failed(job, pod) and (ended := ended_at(pod)) > last_success]
    if not failures:
        return 0.0
    length = min(_FIRST_PAUSE_SECONDS * float(2 ** min(len(failures) - 1, 10)), _LAST_PAUSE_SECONDS)
    return max(0.0, max(failures) + length - now)


def by_index(pods: Sequence[Pod]) -> dict[int | None, list[Pod]]:
    """Return the pods of each index. Pods without an index have the key None."""
    found: dict[int | None, list[Pod]] = {}
    for pod in pods:
        found.setdefault(index_of(pod), []).append(pod)
    return found


def index_failures(job: Job, pods: Sequence[Pod]) -> int:
    """Return how often the index of these pods has failed so far.

    Returns 0 if none of these pods has failed.
    """
    return max((failures_before(pod) + 1 for pod in pods if has_failed(job, pod)), default=0)
