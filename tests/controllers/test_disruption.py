"""PodDisruptionBudgets: what they come to, and what evictions make of them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dray.api.errors import TooManyRequests
from dray.api.times import timestamp
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.client import Client
from dray.controllers.disruption import DisruptionController
from dray.controllers.workloads.replicasets import ReplicaSetController
from dray.store import Cache
from tests import objects
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


async def owned_pods(client: Client, owner: str, uid: str, *names: str) -> None:
    """Create ready pods that name a ReplicaSet as their controller."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": uid, "controller": True}
    for name in names:
        tree = objects.pod(name, metadata={"labels": {"app": "web"}, "ownerReferences": [reference]})
        await client.create(Pod, tree, namespace=NAMESPACE)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(Pod, name, {"status": ready}, NAMESPACE, subresource="status")


async def replica_set(client: Client, name: str, replicas: int) -> ReplicaSet:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    return await client.create(ReplicaSet, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)


async def test_a_budget_over_the_pods_of_two_sets_expects_the_pods_of_both(client: Client, start: Start) -> None:
    await create(client, maxUnavailable=1)
    for name, replicas in (("a", 1), ("b", 2)):
        made = await replica_set(client, name, replicas)
        await owned_pods(client, name, made.metadata.uid, *(f"{name}-{number}" for number in range(replicas)))
    async with start(DisruptionController):
        await becomes(lambda: status(client), (3, 2, 3, 1))


async def test_a_new_set_of_the_same_name_says_nothing_about_the_pods_of_a_deleted_one(
    client: Client, start: Start
) -> None:
    await create(client, maxUnavailable=1)
    await replica_set(client, "web", 5)
    await owned_pods(client, "web", "uid-of-a-deleted-set", "p")
    async with start(DisruptionController):

        async def reason() -> list[str]:
            found = await client.get(PodDisruptionBudget, "b", NAMESPACE)
            return [condition.reason for condition in found.status.conditions]

        await becomes(reason, ["SyncFailed"])


async def test_a_pod_whose_eviction_was_granted_is_not_healthy_although_it_is_still_there(
    client: Client, start: Start
) -> None:
    await create(client, minAvailable=1)
    await owned_pods(client, "web", "uid", "a", "b")
    granted = {"disruptedPods": {"a": timestamp(time.time())}, "disruptionsAllowed": 0, "observedGeneration": 1}
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    await client.patch(PodDisruptionBudget, "b", {"status": granted | counts}, NAMESPACE, subresource="status")
    async with start(DisruptionController):
        await becomes(lambda: status(client), (2, 1, 1, 0))


async def allows(client: Client, disruptions: int, observed: int = 1) -> None:
    """Say, as the controller does, how many pods of the budget may be evicted."""
    counts = {"currentHealthy": 2, "desiredHealthy": 0, "expectedPods": 2}
    told = {"disruptionsAllowed": disruptions, "observedGeneration": observed, **counts}
    await client.patch(PodDisruptionBudget, "b", {"status": told}, NAMESPACE, subresource="status")


async def two_pods(client: Client) -> list[Pod]:
    await create(client, minAvailable=0)
    await owned_pods(client, "web", "uid", "a", "b")
    return await pods(client)


async def test_of_two_evictions_at_once_one_gets_the_last_place(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await two_pods(client)
    await allows(client, 1)
    commit = Cache.commit

    async def slowly(cache: Cache, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(0)  # the other one gets its turn, as with a store on a disk
        return await commit(cache, *arguments, **options)

    monkeypatch.setattr(Cache, "commit", slowly)
    answers = await asyncio.gather(*(evict(client, pod) for pod in found), return_exceptions=True)
    assert [type(answer) for answer in answers if answer is not None] == [TooManyRequests]


async def test_a_budget_remembers_all_evictions_that_it_granted(client: Client) -> None:
    found = await two_pods(client)
    await allows(client, 2)
    for pod in found:
        await evict(client, pod)
    remembered = (await client.get(PodDisruptionBudget, "b", NAMESPACE)).status.disruptedPods
    assert sorted(remembered) == ["a", "b"]


async def test_a_status_that_is_older_than_the_budget_grants_no_eviction(client: Client) -> None:
    first, _ = await two_pods(client)
    await client.patch(PodDisruptionBudget, "b", {"spec": {"minAvailable": 2}}, NAMESPACE)
    await allows(client, 1, observed=1)
    with pytest.raises(TooManyRequests):
        await evict(client, first)
