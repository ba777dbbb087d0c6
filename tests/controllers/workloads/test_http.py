"""The same controllers against a server behind HTTP, as `dray controller-manager` runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dray.api.types.apps import Deployment, ReplicaSet
from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.apiserver.assembly import Running
from dray.client import Client
from dray.client.config import Config
from dray.client.http import Http
from dray.controllers.workloads.deployments import DeploymentController
from dray.controllers.workloads.jobs import JobController
from dray.controllers.workloads.replicasets import ReplicaSetController
from tests.client.conftest import listening
from tests.controllers.conftest import Start
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, pods, template


@pytest.fixture
async def client(server: Running) -> AsyncIterator[Client]:
    async with listening(server) as address, Http(Config(address)) as far:
        yield far


async def test_a_deployment_rolls_and_a_stray_set_is_adopted_and_released(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await client.create(
        ReplicaSet, {"metadata": {"name": "stray", "labels": {"app": "web"}}, "spec": spec}, namespace=NAMESPACE
    )
    await client.create(Deployment, {"metadata": {"name": "web"}, "spec": {**spec, "replicas": 3}}, namespace=NAMESPACE)

    async def progress() -> tuple[int, int, int]:
        status = (await client.get(Deployment, "web", NAMESPACE)).status
        return status.observedGeneration, status.updatedReplicas, status.availableReplicas

    async def owner() -> list[str]:
        return [o.name for o in (await client.get(ReplicaSet, "stray", NAMESPACE)).metadata.ownerReferences]

    async with start(DeploymentController, ReplicaSetController):
        await becomes(owner, ["web"])
        await becomes(lambda: _available(client), 3)
        await client.patch(Deployment, "web", {"spec": {"template": template(value="2")}}, NAMESPACE)
        await becomes(lambda: _values(client), {"2"})
        await client.patch(ReplicaSet, "stray", {"metadata": {"labels": {"app": "x"}}}, NAMESPACE)
        await becomes(owner, [])
        assert (await progress())[1:] == (3, 3)


async def _available(client: Client) -> int:
    return (await client.get(Deployment, "web", NAMESPACE)).status.availableReplicas


async def _values(client: Client) -> set[str]:
    return {pod.spec.containers[0].env[0].value for pod in await pods(client)}


async def test_a_job_counts_its_pods_and_completes(client: Client, start: Start, kubelets: Kubelets) -> None:
    spec = {"completions": 3, "parallelism": 3, "template": template(restartPolicy="Never")}
    await client.create(Job, {"metadata": {"name": "work"}, "spec": spec}, namespace=NAMESPACE)

    async def running() -> list[Pod]:
        return [pod for pod in await pods(client) if pod.status.phase == "Running"]

    async def count() -> int:
        return len(await running())

    async def complete() -> list[str]:
        return [c.type for c in (await client.get(Job, "work", NAMESPACE)).status.conditions]

    async with start(JobController):
        await becomes(count, 3)
        for pod in await running():
            await kubelets.finish(pod)
        await becomes(complete, ["SuccessCriteriaMet", "Complete"])
        assert (await client.get(Job, "work", NAMESPACE)).status.succeeded == 3
        assert all(pod.metadata.finalizers == () for pod in await pods(client))
