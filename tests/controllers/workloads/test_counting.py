"""Every pod of a job that ended counts once, whatever is interrupted."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.controllers.workloads import indexes
from dray.controllers.workloads.counting import tally
from dray.controllers.workloads.jobpods import INDEX, TRACKING
from tests.controllers.workloads.objects import pod


def job(**spec: Any) -> Job:
    return msgspec.convert({"metadata": {"name": "work"}, "spec": {"backoffLimit": 6, **spec}}, Job)


def ended(name: str, phase: str, **meta: Any) -> Pod:
    return pod(name, node="n", phase=phase, finalizers=[TRACKING], **meta)


def written(subject: Job, pods: list[Pod]) -> Job:
    """The job after its status was written."""
    count = tally(subject, pods)
    status = replace(
        subject.status,
        succeeded=count.succeeded,
        failed=count.failed,
        uncountedTerminatedPods=count.uncounted,
        completedIndexes=indexes.written(count.completed),
    )
    return replace(subject, status=status)


def stripped(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, finalizers=()))


@given(st.lists(st.sampled_from(["Succeeded", "Failed"]), max_size=6), st.data())
def test_interruptions_lose_nothing_and_count_nothing_twice(phases: list[str], data: st.DataObject) -> None:
    subject = job(completions=10)
    pods = {str(n): ended(str(n), phase) for n, phase in enumerate(phases)}
    for _ in range(30):
        release = [one.metadata.name for one in tally(subject, [*pods.values()]).release]
        if data.draw(st.booleans(), "status is written"):
            subject = written(subject, [*pods.values()])
            for name in data.draw(st.sets(st.sampled_from(release)) if release else st.just(set()), "freed"):
                if data.draw(st.booleans(), "and deleted"):
                    del pods[name]
                else:
                    pods[name] = stripped(pods[name])
    for _ in range(2):  # at last nothing interrupts
        subject = written(subject, [*pods.values()])
        pods = {name: stripped(one) for name, one in pods.items()}
    subject = written(subject, [*pods.values()])
    assert (subject.status.succeeded, subject.status.failed) == (phases.count("Succeeded"), phases.count("Failed"))
    assert tally(subject, [*pods.values()]).settled


def test_an_index_counts_once_however_many_of_its_pods_succeed() -> None:
    subject = job(completions=3, completionMode="Indexed")
    pods = [ended(f"p{n}", "Succeeded", annotations={INDEX: text}) for n, text in enumerate(["1", "1", "2", "7", "x"])]
    count = tally(subject, pods)
    assert (count.completed, count.succeeded, len(count.release)) == (frozenset({1, 2}), 2, 5)


def test_indexes_beyond_the_size_of_a_shrunk_job_do_not_count() -> None:
    subject = job(completions=2, completionMode="Indexed")
    subject = replace(subject, status=replace(subject.status, completedIndexes="0,5-9"))
    assert tally(subject, []).completed == {0}


def test_a_deleted_pod_counts_at_once_or_when_its_node_is_done() -> None:
    leaving: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    gone = leaving | {"deletionGracePeriodSeconds": 0}
    at_once, later = job(completions=1), job(completions=1, podReplacementPolicy="Failed")
    assert tally(at_once, [ended("a", "Running", **leaving)]).all_failed == 1
    assert tally(later, [ended("a", "Running", **leaving)]).all_failed == 0
    assert tally(later, [ended("a", "Running", **gone)]).all_failed == 1
