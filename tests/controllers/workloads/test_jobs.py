"""Jobs on a real server, with nodes that are played and a clock that is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.client import Client, ManualClock
from dray.controllers.garbage import GarbageCollector
from dray.controllers.workloads.jobpods import INDEX, TRACKING
from dray.controllers.workloads.jobs import JobController
from tests.controllers.conftest import Start, gone, quiet
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, events, pods, template, told


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def kubelets(client: Client, clock: ManualClock) -> AsyncIterator[Kubelets]:
    player = Kubelets(client, clock)
    task = asyncio.create_task(player.run())
    yield player
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def create(client: Client, **spec: Any) -> Job:
    spec.setdefault("template", template({"own": "label"}, restartPolicy="Never"))
    return await client.create(Job, {"metadata": {"name": "work"}, "spec": spec}, namespace=NAMESPACE)


async def read(client: Client) -> Job:
    return await client.get(Job, "work", NAMESPACE)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(Job, "work", {"spec": spec}, NAMESPACE)


async def counts(client: Client) -> tuple[int, int, int]:
    status = (await read(client)).status
    return status.active, status.succeeded, status.failed


async def conditions(client: Client) -> dict[str, str]:
    """Reasons by type, of those that hold."""
    return {c.type: c.reason for c in (await read(client)).status.conditions if c.status == "True"}


async def running(client: Client) -> list[Pod]:
    found = [pod for pod in await pods(client) if pod.status.phase == "Running"]
    return sorted((p for p in found if p.metadata.deletionTimestamp is None), key=lambda pod: pod.metadata.name)


async def _running(client: Client) -> int:
    return len(await running(client))


COMPLETED = {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}


def failed(reason: str) -> dict[str, str]:
    return {"FailureTarget": reason, "Failed": reason}


async def test_a_job_runs_its_pods_and_completes(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    made = await create(client, completions=3, parallelism=2)
    async with start(JobController, clock=clock):
        await becomes(lambda: counts(client), (2, 0, 0))
        await becomes(lambda: _running(client), 2)
        first, second = await running(client)
        for pod in (first, second):
            (owner,) = pod.metadata.ownerReferences
            assert (owner.kind, owner.uid, owner.controller) == ("Job", made.metadata.uid, True)
            assert pod.metadata.finalizers == (TRACKING,)
            assert pod.metadata.labels == {
                "own": "label",
                "batch.kubernetes.io/controller-uid": made.metadata.uid,
                "batch.kubernetes.io/job-name": "work",
                "controller-uid": made.metadata.uid,
                "job-name": "work",
            }
        await kubelets.finish(first)
        await kubelets.finish(second)
        await becomes(lambda: counts(client), (1, 2, 0))
        await becomes(lambda: _running(client), 1)
        await kubelets.finish((await running(client))[0])
        await becomes(lambda: conditions(client), COMPLETED)
        status = (await read(client)).status
        assert (status.active, status.succeeded, status.ready, status.terminating) == (0, 3, 0, 0)
        assert status.startTime is not None
        assert status.completionTime is not None
        assert status.uncountedTerminatedPods is not None
        assert status.uncountedTerminatedPods.succeeded == ()
        assert all(pod.metadata.finalizers == () for pod in await pods(client))
        await becomes(lambda: events(client, "Completed"), ["Job completed"])
        await becomes(lambda: told(client, "SuccessfulCreate"), 3)


async def test_failures_are_replaced_after_growing_pauses_until_the_limit(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, backoffLimit=2)
    async with start(JobController, clock=clock):
        for failures, pause in ((1, 10), (2, 20)):
            await becomes(lambda: _running(client), 1)
            await kubelets.finish((await running(client))[0], code=1)
            await becomes(lambda: counts(client), (0, 0, failures))
            await clock.advance(pause - 1)
            await quiet(0.02)
            assert await _running(client) == 0
            await clock.advance(1)
        await becomes(lambda: _running(client), 1)
        await kubelets.finish((await running(client))[0], code=1)
        await becomes(lambda: conditions(client), failed("BackoffLimitExceeded"))
        assert await counts(client) == (0, 0, 3)
        assert (await read(client)).status.completionTime is None
        await becomes(lambda: events(client, "BackoffLimitExceeded"), ["Job has reached the specified backoff limit"])


async def test_a_failing_job_stops_the_pods_that_still_run(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, completions=3, parallelism=3, backoffLimit=0)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 3)
        await kubelets.finish((await running(client))[0], code=1)
        await becomes(lambda: conditions(client), failed("BackoffLimitExceeded"))
        assert await counts(client) == (0, 0, 3)
        await becomes(lambda: _running(client), 0)


async def test_restarts_in_place_count_against_the_limit(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, backoffLimit=3, template=template(restartPolicy="OnFailure"))
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 1)
        (pod,) = await running(client)
        container = {"name": "main", "image": "", "imageID": "", "ready": False, "state": {}}
        for restarts in (2, 3):
            assert "Failed" not in await conditions(client)
            patch = {"status": {"containerStatuses": [{**container, "restartCount": restarts}]}}
            await client.patch(Pod, pod.metadata.name, patch, NAMESPACE, subresource="status")
            await quiet(0.02)
        await becomes(lambda: conditions(client), failed("BackoffLimitExceeded"))


async def test_indexed_pods_know_their_index_and_each_index_completes_once(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, completions=4, parallelism=4, completionMode="Indexed")
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 4)
        by_index = {pod.metadata.annotations[INDEX]: pod for pod in await running(client)}
        assert [*sorted(by_index)] == ["0", "1", "2", "3"]
        pod = by_index["2"]
        assert pod.metadata.labels[INDEX] == "2"
        assert pod.metadata.name.startswith("work-2-")
        assert pod.spec.hostname == "work-2"
        (variable,) = [v for v in pod.spec.containers[0].env if v.name == "JOB_COMPLETION_INDEX"]
        assert variable.valueFrom is not None
        assert variable.valueFrom.fieldRef is not None
        assert variable.valueFrom.fieldRef.fieldPath == f"metadata.labels['{INDEX}']"
        for index in "013":
            await kubelets.finish(by_index[index])
        await becomes(lambda: _indexes(client), "0,1,3")
        await kubelets.finish(by_index["2"], code=1)
        await becomes(lambda: _running(client), 1)
        (again,) = await running(client)
        assert again.metadata.annotations[INDEX] == "2"
        await kubelets.finish(again)
        await becomes(lambda: conditions(client), COMPLETED)
        assert await _indexes(client) == "0-3"
        assert await counts(client) == (0, 4, 1)


async def _indexes(client: Client) -> str:
    return (await read(client)).status.completedIndexes


async def test_an_index_with_its_own_limit_fails_alone(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 2)
        zero, one = await running(client)
        await kubelets.finish(zero, code=1)
        await kubelets.finish(one)
        await clock.advance(11)
        await becomes(lambda: _running(client), 1)
        (zero,) = await running(client)
        assert zero.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
        await kubelets.finish(zero, code=1)
        await becomes(lambda: conditions(client), failed("FailedIndexes"))
        status = (await read(client)).status
        assert (status.completedIndexes, status.failedIndexes) == ("1", "0")


async def test_a_job_that_takes_too_long_fails(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, activeDeadlineSeconds=60)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 1)
        await clock.advance(58)
        await quiet(0.02)
        assert await conditions(client) == {}
        await clock.advance(2)
        await becomes(lambda: conditions(client), failed("DeadlineExceeded"))
        await becomes(lambda: _running(client), 0)


async def test_a_suspended_job_has_no_pods_and_goes_on_when_resumed(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, suspend=True, completions=2, parallelism=2)
    async with start(JobController, clock=clock):
        await becomes(lambda: conditions(client), {"Suspended": "JobSuspended"})
        assert (await read(client)).status.startTime is None
        assert await pods(client) == []
        await change(client, suspend=False)
        await becomes(lambda: _running(client), 2)
        assert (await read(client)).status.startTime is not None
        assert await conditions(client) == {}
        await change(client, suspend=True)
        await becomes(lambda: _count(client), 0)
        await becomes(lambda: counts(client), (0, 0, 0))
        await becomes(lambda: events(client, "Suspended"), ["Job suspended"])
        await becomes(lambda: events(client, "Resumed"), ["Job resumed"])


async def _count(client: Client) -> int:
    return len(await pods(client))


async def test_fewer_pods_at_once_are_no_failures(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, completions=10, parallelism=4)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 4)
        await change(client, parallelism=1)
        await becomes(lambda: counts(client), (1, 0, 0))
        await becomes(lambda: _count(client), 1)


async def test_a_deleted_pod_counts_as_failed_and_is_replaced(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 1)
        (pod,) = await running(client)
        await client.delete(Pod, pod.metadata.name, NAMESPACE)
        await gone(client, Pod, pod.metadata.name, NAMESPACE)
        await becomes(lambda: _failed(client), 1)
        await becomes(lambda: _running(client), 1)


async def _failed(client: Client) -> int:
    return (await counts(client))[2]


async def test_without_completions_one_success_ends_the_work_queue(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, parallelism=2)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 2)
        first, second = await running(client)
        await kubelets.finish(first)
        await becomes(lambda: counts(client), (1, 1, 0))
        await kubelets.finish(second)
        await becomes(lambda: conditions(client), COMPLETED)
        assert await _count(client) == 2


@pytest.mark.parametrize(
    ("action", "expected", "failures"),
    [("FailJob", failed("PodFailurePolicy"), 1), ("Ignore", {}, 0), ("Count", {}, 1)],
)
async def test_the_failure_policy_decides_what_an_exit_code_means(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock, action: str, expected: Any, failures: int
) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    await create(client, podFailurePolicy={"rules": [rule]})
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 1)
        (pod,) = await running(client)
        await kubelets.finish(pod, code=42)
        await becomes(lambda: _finalizers(client, pod), ())
        await becomes(lambda: conditions(client), expected)
        await becomes(lambda: _failed(client), failures)
        if action == "FailJob":
            (text,) = [c.message for c in (await read(client)).status.conditions if c.type == "Failed"]
            name = pod.metadata.name
            assert text == f"Container main for pod ns/{name} failed with exit code 42 matching FailJob rule at index 0"


async def _finalizers(client: Client, pod: Pod) -> tuple[str, ...]:
    return (await client.get(Pod, pod.metadata.name, NAMESPACE)).metadata.finalizers


async def test_a_success_policy_ends_the_job_early(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
    await create(client, completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    async with start(JobController, clock=clock):
        await becomes(lambda: _running(client), 3)
        await kubelets.finish((await running(client))[0])
        await becomes(lambda: conditions(client), {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"})
        await becomes(lambda: _running(client), 0)
        assert await counts(client) == (0, 1, 0)


async def test_a_finished_job_is_deleted_with_its_pods_when_its_time_is_up(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, ttlSecondsAfterFinished=100)
    async with start(GarbageCollector), start(JobController, clock=clock):
        await becomes(lambda: _running(client), 1)
        await kubelets.finish((await running(client))[0])
        await becomes(lambda: conditions(client), COMPLETED)
        await clock.advance(99)
        await quiet(0.02)
        assert (await read(client)).metadata.deletionTimestamp is None
        await clock.advance(2)
        await gone(client, Job, "work", NAMESPACE)
        await becomes(lambda: _count(client), 0)


async def test_pods_of_a_deleted_job_are_let_go(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, parallelism=2, completions=2)
    async with start(GarbageCollector), start(JobController, clock=clock):
        await becomes(lambda: _running(client), 2)
        await client.delete(Job, "work", NAMESPACE, propagation="Background")
        await becomes(lambda: _count(client), 0)


async def test_a_job_of_another_manager_is_left_alone(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    await create(client, managedBy="example.com/queue")
    async with start(JobController, clock=clock):
        await quiet()
        assert await pods(client) == []
        assert (await read(client)).status.startTime is None


async def test_restarts_count_every_pod_once_and_make_none_too_many(
    client: Client, start: Start, kubelets: Kubelets, clock: ManualClock
) -> None:
    seen: set[str] = set()
    kubelets.pods.add_handler(lambda deltas: seen.update(d.object.metadata.uid for d in deltas))
    await create(client, completions=30, parallelism=5)
    restarts = 0
    while "Complete" not in await conditions(client):
        async with start(JobController, clock=clock):
            await asyncio.sleep(0.01 + restarts / 1000)  # a busy machine needs longer to get anywhere
        for pod in await running(client):
            await kubelets.finish(pod)
        restarts += 1
        assert restarts < 100
    assert await counts(client) == (0, 30, 0)
    assert len(seen) == 30
    assert restarts > 3
