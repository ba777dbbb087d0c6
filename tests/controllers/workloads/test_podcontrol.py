"""Batches in which all workload controllers create and delete pods, and how they share the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from dray.api.types.apps import ReplicaSet, StatefulSet
from dray.api.types.batch import Job
from dray.api.types.core import Pod, ReplicationController
from dray.background.thread import ON_THE_LOOP
from dray.background.turns import ALLOWANCE, WRITE
from dray.client import Client, Object
from dray.controllers.workloads.jobpods import TRACKING
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.podcontrol import BURST
from dray.controllers.workloads.replicasets import ReplicaSetController, ReplicationManager
from dray.controllers.workloads.statefulsets import StatefulSetController
from tests.controllers.conftest import Start, gone
from tests.controllers.counting import Held, PerRound
from tests.controllers.workloads.conftest import NAMESPACE, becomes, pods, template

PER_ROUND = 2 * ALLOWANCE // WRITE  # those who go on, and those who waited
SELECTOR = {"matchLabels": {"app": "web"}}


def job(count: int) -> dict[str, Any]:
    spec = {"parallelism": count, "template": template(restartPolicy="Never")}
    return {"metadata": {"name": "web"}, "spec": spec}


def replica_set(count: int) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"replicas": count, "selector": SELECTOR, "template": template()}}


def replication_controller(count: int) -> dict[str, Any]:
    spec = {"replicas": count, "selector": {"app": "web"}, "template": template()}
    return {"metadata": {"name": "web"}, "spec": spec}


def stateful_set(count: int) -> dict[str, Any]:
    tree = replica_set(count)
    tree["spec"] |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
    return tree


ALL = pytest.mark.parametrize(
    ("controller", "type_", "tree"),
    [
        (JobController, Job, job),
        (ReplicaSetController, ReplicaSet, replica_set),
        (ReplicationManager, ReplicationController, replication_controller),
        (StatefulSetController, StatefulSet, stateful_set),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
Tree = Callable[[int], dict[str, Any]]


@ALL
async def test_batches_double_up_to_500_pods_in_one_sync(
    client: Client, start: Start, controller: Any, type_: type[Object], tree: Tree
) -> None:
    await client.create(type_, tree(2_000_000_000), namespace=NAMESPACE)
    held = Held(client)
    async with start(controller, own=cast(Client, held)):
        expected = [1, 2, 4, 8, 16, 32, 64, 128, 245, 1]  # 500, and then the next sync
        assert [await held.release(size) for size in expected] == expected
        assert sum(expected) == BURST + 1


@ALL
async def test_a_refused_pod_ends_the_sync_after_its_batch(
    client: Client, start: Start, controller: Any, type_: type[Object], tree: Tree
) -> None:
    await client.create(type_, tree(100), namespace=NAMESPACE)
    held = Held(client)
    async with start(controller, own=cast(Client, held)):
        assert [await held.release(1), await held.release(2)] == [1, 2]
        assert await held.release(4, refuse=1) == 4
        assert await held.release(1) == 1  # the next sync, and not a batch of eight
        await becomes(lambda: _count(client), 1 + 2 + 3 + 1)


async def _count(client: Client) -> int:
    return len(await pods(client))


@pytest.mark.parametrize("refuse", [0, 1])
async def test_deletions_come_in_the_same_batches_and_end_after_a_refusal(
    client: Client, start: Start, refuse: int
) -> None:
    await client.create(ReplicaSet, replica_set(20), namespace=NAMESPACE)
    async with start(ReplicaSetController):
        await becomes(lambda: _count(client), 20)
    await client.patch(ReplicaSet, "web", {"spec": {"replicas": 0}}, NAMESPACE)
    held = Held(client)
    async with start(ReplicaSetController, own=cast(Client, held)):
        assert [await held.release(1), await held.release(2)] == [1, 2]
        assert await held.release(4, refuse=refuse) == 4
        following = 1 if refuse else 8
        assert await held.release(following) == following


async def test_pods_of_a_job_that_is_gone_are_freed_a_few_in_each_round(client: Client, start: Start) -> None:
    made = await client.create(Job, {**job(0)}, namespace=NAMESPACE)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": made.metadata.uid, "controller": True}
    for number in range(150):
        metadata = {"name": f"p{number}", "finalizers": [TRACKING], "ownerReferences": [owner]}
        await client.create(Pod, {**template(), "metadata": metadata}, namespace=NAMESPACE)
    counted = PerRound(client)
    async with start(JobController, own=cast(Client, counted)):
        await client.delete(Job, "web", NAMESPACE, propagation="Background")
        await gone(client, Job, "web", NAMESPACE)

        async def tracked() -> int:
            return sum(TRACKING in pod.metadata.finalizers for pod in await pods(client))

        await becomes(tracked, 0)
    assert sum(counted.writes.values()) >= 150
    assert counted.most <= PER_ROUND


async def test_an_owner_of_many_pods_is_judged_beside_the_event_loop(
    client: Client, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop's own thread must look at no more than a bounded number of pods in one computation."""
    import threading

    from dray.controllers.workloads import replicasets

    seen: list[tuple[int, bool]] = []
    loop_thread = threading.get_ident()
    judge = replicasets.status_of

    def status_of(owner: Any, pods: Any, error: Any, now: float) -> Any:
        seen.append((len(pods), threading.get_ident() == loop_thread))
        return judge(owner, pods, error, now)

    monkeypatch.setattr(replicasets, "status_of", status_of)
    await client.create(ReplicaSet, replica_set(ON_THE_LOOP + 100), namespace=NAMESPACE)
    async with start(ReplicaSetController):

        async def count() -> int:
            return (await client.get(ReplicaSet, "web", NAMESPACE)).status.replicas

        await becomes(count, ON_THE_LOOP + 100)
    assert any(number > ON_THE_LOOP for number, _ in seen)
    assert all((number <= ON_THE_LOOP) == on_loop for number, on_loop in seen)
