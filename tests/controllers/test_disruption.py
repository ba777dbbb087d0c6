"""PodDisruptionBudgets: what they come to, and what evictions make of them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import TooManyRequests
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.client import Client
from dray.controllers.disruption import DisruptionController
from dray.controllers.workloads import ReplicaSetController
from tests.controllers.conftest import Start
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, kubelets, namespace, pods, template

__all__ = ["kubelets", "namespace"]


async def create(client: Client, **spec: Any) -> None:
    tree = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    await client.create(PodDisruptionBudget, tree, namespace=NAMESPACE)


async def status(client: Client) -> tuple[int, int, int, int]:
    found = (await client.get(PodDisruptionBudget, "b", NAMESPACE)).status
    return found.expectedPods, found.desiredHealthy, found.currentHealthy, found.disruptionsAllowed


async def run(client: Client, replicas: int) -> None:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await client.create(ReplicaSet, {"metadata": {"name": "web"}, "spec": spec}, namespace=NAMESPACE)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 2, 3, 1)),
        ({"minAvailable": "50%"}, (3, 2, 3, 1)),
        ({"maxUnavailable": 1}, (3, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (3, 2, 3, 1)),
        ({"maxUnavailable": 0}, (3, 3, 3, 0)),
    ],
)
async def test_what_a_budget_allows(
    client: Client, start: Start, kubelets: Kubelets, spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    await create(client, **spec)
    await run(client, 3)
    async with start(ReplicaSetController, DisruptionController):
        await becomes(lambda: status(client), expected)


async def test_evictions_stop_where_the_budget_ends(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, minAvailable=2)
    await run(client, 3)
    async with start(ReplicaSetController, DisruptionController):
        await becomes(lambda: status(client), (3, 2, 3, 1))
        kubelets.holds = lambda pod: True  # nobody takes their place
        first, second, _ = await pods(client)
        await evict(client, first)
        with pytest.raises(TooManyRequests, match="Cannot evict pod as it would violate the pod's disruption budget"):
            await evict(client, second)
        assert (await client.get(Pod, second.metadata.name, NAMESPACE)).metadata.deletionTimestamp is None


async def evict(client: Client, pod: Pod) -> None:
    name = pod.metadata.name
    await client.create(Pod, {"metadata": {"name": name}}, namespace=NAMESPACE, name=name, subresource="eviction")
