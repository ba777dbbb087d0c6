"""When a job is decided, and which pods it needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.times import timestamp
from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.controllers.workloads.completion import need, pause, until_deadline, verdict
from dray.controllers.workloads.counting import tally
from dray.controllers.workloads.jobpods import INDEX
from dray.controllers.workloads.podcontrol import BURST
from tests.controllers.workloads.objects import pod

NOW = 1_000_000.0


def job(succeeded: int = 0, failed: int = 0, **spec: Any) -> Job:
    status = {"succeeded": succeeded, "failed": failed, "startTime": timestamp(NOW - 100)}
    full = {"backoffLimit": 6, "parallelism": 1, "completionMode": "NonIndexed", "suspend": False, **spec}
    return msgspec.convert({"metadata": {"name": "work"}, "spec": full, "status": status}, Job)


def running(*names: str) -> list[Pod]:
    return [pod(name, node="n", phase="Running", ready=NOW - 50) for name in names]


def reason(subject: Job, active: list[Pod] | None = None) -> str | None:
    end = verdict(subject, tally(subject, []), active or [], NOW)
    return end.reason if end is not None else None


@pytest.mark.parametrize(
    ("subject", "active", "expected"),
    [
        (job(2, completions=3), [], None),
        (job(3, completions=3), [], "CompletionsReached"),
        (job(0, completions=0), [], "CompletionsReached"),
        (job(0), [], None),  # a work queue that has not begun
        (job(1), running("a"), None),
        (job(1), [], "CompletionsReached"),
        (job(0, 6, completions=1), [], None),
        (job(0, 7, completions=1), [], "BackoffLimitExceeded"),
        (job(3, 7, completions=3), [], "BackoffLimitExceeded"),
        (job(completions=1, activeDeadlineSeconds=100), [], "DeadlineExceeded"),
        (job(completions=1, activeDeadlineSeconds=101), [], None),
        (job(completions=1, activeDeadlineSeconds=1, suspend=True), [], None),
    ],
)
def test_counts_and_time_decide(subject: Job, active: list[Pod], expected: str | None) -> None:
    assert reason(subject, active) == expected


def test_what_was_announced_stands() -> None:
    subject = job(5, completions=1)
    condition = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded", "message": "m"}
    status = msgspec.convert({"conditions": [condition], "succeeded": 5}, type(subject.status))
    assert reason(replace(subject, status=status)) == "DeadlineExceeded"


def test_a_deadline_is_waited_for() -> None:
    assert until_deadline(job(activeDeadlineSeconds=160), NOW) == 60
    assert until_deadline(job(), NOW) is None


@pytest.mark.parametrize(
    ("subject", "active", "create", "delete"),
    [
        (job(completions=5, parallelism=3), 0, 3, 0),
        (job(4, completions=5, parallelism=3), 0, 1, 0),
        (job(completions=5, parallelism=3), 2, 1, 0),
        (job(completions=5, parallelism=1), 3, 0, 2),
        (job(parallelism=3), 1, 2, 0),
        (job(1, parallelism=3), 1, 0, 0),  # a work queue is not refilled after the first success
        (job(completions=5, parallelism=3, suspend=True), 2, 0, 2),
        (job(completions=5, parallelism=0), 1, 0, 1),
    ],
)
def test_the_number_of_pods_follows_completions_and_parallelism(
    subject: Job, active: int, create: int, delete: int
) -> None:
    pods = running(*(f"p{n}" for n in range(active)))
    found = need(subject, tally(subject, pods), pods, pods, NOW)
    assert (len(found.create), len(found.delete)) == (create, delete)


def test_every_free_index_gets_a_pod_and_doubles_go() -> None:
    subject = job(completions=5, parallelism=5, completionMode="Indexed")
    subject = replace(subject, status=replace(subject.status, completedIndexes="3"))
    pods = [
        pod(name, node="n", phase="Running", ready=since, annotations={INDEX: index})
        for name, since, index in [("a", NOW - 500, "0"), ("b", NOW - 2, "0"), ("c", NOW - 2, "9"), ("d", NOW, "1")]
    ]
    found = need(subject, tally(subject, pods), pods, pods, NOW)
    assert sorted(one.metadata.name for one in found.delete) == ["b", "c"]
    assert [*found.create] == [2, 4]


def test_pods_on_their_way_out_are_replaced_only_once_they_failed_if_so_wanted() -> None:
    leaving = pod("a", node="n", phase="Running", deletionTimestamp=timestamp(NOW), deletionGracePeriodSeconds=30)
    for policy, expected in (("Failed", 0), ("TerminatingOrFailed", 1)):
        subject = job(completions=1, podReplacementPolicy=policy)
        assert len(need(subject, tally(subject, [leaving]), [], [leaving], NOW).create) == expected


def ended(name: str, phase: str, at: float) -> Pod:
    one = pod(name, node="n", phase=phase)
    terminated = {"terminated": {"exitCode": 1, "finishedAt": timestamp(at)}}
    status = {"name": "c", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": terminated}
    return msgspec.convert(
        {"metadata": {"name": name, "uid": name}, "status": {"phase": phase, "containerStatuses": [status]}}, type(one)
    )


def test_pauses_double_with_each_failure_since_the_last_success() -> None:
    subject = job(completions=1)
    failures = [ended(f"f{n}", "Failed", NOW - 40 + n) for n in range(3)]
    assert pause(subject, [], NOW) == 0
    assert pause(subject, failures[:1], NOW - 40) == 10
    assert pause(subject, failures[:2], NOW - 39) == 20
    assert pause(subject, failures, NOW) == 2  # the third failed 38 s ago, and 40 s are to pass
    assert pause(subject, [*failures[:2], ended("s", "Succeeded", NOW - 38.5), failures[2]], NOW - 38) == 10
    many = [ended(f"f{n}", "Failed", NOW) for n in range(20)]
    assert pause(subject, many, NOW) == 600


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_without_end_needs_some_pods_at_a_time(mode: str) -> None:
    endless = job(completions=2_000_000_000, parallelism=2_000_000_000, completionMode=mode)
    assert len(need(endless, tally(endless, []), [], [], NOW).create) == BURST
    rules = {"rules": [{"succeededIndexes": "0-1999999999"}]}
    assert reason(job(completions=2_000_000_000, completionMode="Indexed", successPolicy=rules)) is None
