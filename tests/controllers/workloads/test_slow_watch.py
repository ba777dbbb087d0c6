"""Copies of pods that lag behind lead to no pod too many, and none too few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from dray.api.types.apps import DaemonSet, ReplicaSet
from dray.api.types.batch import Job
from dray.api.types.core import Node, Pod
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running
from dray.client import Client, Informer, InProcess
from dray.controllers.workloads.daemonsets import DaemonSetController
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.replicasets import ReplicaSetController
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, becomes, pods, template

LAG_SECONDS = 0.05


class SlowPods(InProcess):
    """A client that hears of pods late, and of everything else at once."""

    async def watch(self, type_: type[Any], *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for batch in super().watch(type_, *args, **options):
            if type_ is Pod:
                await asyncio.sleep(LAG_SECONDS)
            yield batch


@pytest.fixture
def client(server: Running) -> Client:
    return SlowPods(server.api, ADMIN)


@pytest.fixture
async def seen(server: Running) -> AsyncIterator[set[str]]:
    """The uids of all pods that there ever were."""
    uids: set[str] = set()
    informer = Informer(InProcess(server.api, ADMIN), Pod)
    informer.add_handler(lambda deltas: uids.update(delta.object.metadata.uid for delta in deltas))
    task = asyncio.create_task(informer.run())
    yield uids
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _count(client: Client) -> int:
    return len(await pods(client))


async def stays(client: Client, count: int) -> None:
    """The number of pods is reached and kept, though the owner is looked at again and again."""
    await becomes(lambda: _count(client), count)
    await quiet(4 * LAG_SECONDS)
    assert await _count(client) == count


async def nudge(client: Client, type_: type[Any], name: str) -> None:
    for number in range(5):
        await client.patch(type_, name, {"metadata": {"labels": {"look": str(number)}}}, NAMESPACE)
        await asyncio.sleep(LAG_SECONDS / 10)


SELECTOR = {"matchLabels": {"app": "web"}}


async def test_of_a_replica_set(client: Client, start: Start, seen: set[str]) -> None:
    spec = {"replicas": 7, "selector": SELECTOR, "template": template()}
    async with start(ReplicaSetController):
        await client.create(ReplicaSet, {"metadata": {"name": "web"}, "spec": spec}, namespace=NAMESPACE)
        await nudge(client, ReplicaSet, "web")
        await stays(client, 7)
        assert len(seen) == 7
        await client.patch(ReplicaSet, "web", {"spec": {"replicas": 3}}, NAMESPACE)
        await nudge(client, ReplicaSet, "web")
        await stays(client, 3)
        assert len(seen) == 7


async def test_of_a_daemon_set(client: Client, start: Start, seen: set[str]) -> None:
    for number in range(4):
        await client.create(Node, {"metadata": {"name": f"n{number}"}})
    spec = {"selector": SELECTOR, "template": template()}
    async with start(DaemonSetController):
        await client.create(DaemonSet, {"metadata": {"name": "web"}, "spec": spec}, namespace=NAMESPACE)
        await nudge(client, DaemonSet, "web")
        await stays(client, 4)
        assert len(seen) == 4


async def test_of_a_job(client: Client, start: Start, seen: set[str]) -> None:
    spec = {"completions": 9, "parallelism": 5, "template": template(restartPolicy="Never")}
    async with start(JobController):
        await client.create(Job, {"metadata": {"name": "web"}, "spec": spec}, namespace=NAMESPACE)
        await nudge(client, Job, "web")
        await stays(client, 5)
        assert len(seen) == 5
