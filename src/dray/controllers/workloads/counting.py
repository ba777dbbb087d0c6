"""Counts the ended pods of a Job, each exactly once, even across restarts. Pure.

A pod carries a finalizer until it is counted. Its uid is first written to the status (`uncountedTerminatedPods`),
then the finalizer is removed, and once that is observed the uid is replaced by one more in the count. A crash between
any two of these steps loses no pod and counts none twice. Indexed Jobs write completed indexes at once, because a set
cannot count an index twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from dray.api.types.batch import Job, UncountedTerminatedPods
from dray.api.types.core import Pod
from dray.controllers.workloads import failurepolicy, indexes
from dray.controllers.workloads.jobpods import (
    failures_before,
    has_failed,
    has_succeeded,
    index_of,
    is_indexed,
    is_tracked,
)

# Limit of pods counted in one step: uids are long, and a status must not become too large.
_AT_ONCE = 500


class Tally(NamedTuple):
    """Counts for the Job's status, and the pods that lose their finalizer once the status is written."""

    succeeded: int
    failed: int
    uncounted: UncountedTerminatedPods
    completed: frozenset[int]
    failed_indexes: frozenset[int]
    release: Sequence[Pod]
    failed_by_policy: str  # why a pod failure policy fails the whole Job, or ""

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)

    @property
    def settled(self) -> bool:
        return not (self.release or self.uncounted.succeeded or self.uncounted.failed)


def tally(job: Job, pods: Sequence[Pod]) -> Tally:
    """Return new counts, continued from the Job's status. `pods` are all pods that the Job controls.

    Only pods with the tracking finalizer are counted, a limited number in one call.
    """
    tracked = {pod.metadata.uid: pod for pod in pods if is_tracked(pod)}
    status, before = job.status, job.status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded = [uid for uid in before.succeeded if uid in tracked]
    failed = [uid for uid in before.failed if uid in tracked]
    counted = {*succeeded, *failed}
    completed = set(_valid(job, indexes.parse(status.completedIndexes)))
    failed_indexes = set(_valid(job, indexes.parse(status.failedIndexes or "")))
    policy = ""
    ended = [pod for pod in tracked.values() if has_succeeded(pod) or has_failed(job, pod)]
    release = list(islice(ended, _AT_ONCE))
    for pod in release:
        if pod.metadata.uid in counted:
            continue
        if has_succeeded(pod):
            if is_indexed(job):
                completed |= _valid(job, {index_of(pod)})
            else:
                succeeded.append(pod.metadata.uid)
            continue
        judgement = failurepolicy.judge(job, pod)
        if judgement.action == failurepolicy.FAIL_JOB:
            policy = policy or judgement.why
        if judgement.action == failurepolicy.FAIL_INDEX or _exhausted(job, pod):
            failed_indexes |= _valid(job, {index_of(pod)})
        if judgement.action != failurepolicy.IGNORE:
            failed.append(pod.metadata.uid)
    return Tally(
        len(completed) if is_indexed(job) else status.succeeded + _gone(before.succeeded, tracked),
        status.failed + _gone(before.failed, tracked),
        UncountedTerminatedPods(failed=tuple(failed), succeeded=tuple(succeeded)),
        frozenset(completed),
        frozenset(failed_indexes - completed),
        release,
        policy,
    )


def _gone(uids: Sequence[str], tracked: dict[str, Pod]) -> int:
    return sum(uid not in tracked for uid in uids)


def _valid(job: Job, found: set[int | None] | frozenset[int]) -> set[int]:
    """Return the indexes below the Job's completions; the Job may have shrunk, and pods may be foreign."""
    return {index for index in found if index is not None and index < (job.spec.completions or 0)}


def _exhausted(job: Job, pod: Pod) -> bool:
    """Whether a failed pod's index has now failed as often as backoffLimitPerIndex allows.

    Returns False if the Job has no backoffLimitPerIndex.
    """
    limit = job.spec.backoffLimitPerIndex
    return limit is not None and failures_before(pod) >= limit
