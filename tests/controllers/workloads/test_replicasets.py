"""ReplicaSets on a real server, with nodes that are played."""

from __future__ import annotations

import asyncio
from typing import Any

from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Namespace, Pod, ReplicationController, ResourceQuota
from dray.client import Client, ManualClock
from dray.controllers.workloads.replicasets import ReplicaSetController, ReplicationManager
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, events, pods, template, told


async def create(client: Client, replicas: int = 3, name: str = "web", **spec: Any) -> ReplicaSet:
    tree = {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }
    return await client.create(ReplicaSet, tree, namespace=NAMESPACE)


async def read(client: Client, name: str = "web") -> ReplicaSet:
    return await client.get(ReplicaSet, name, NAMESPACE)


async def counts(client: Client) -> tuple[int, ...]:
    status = (await read(client)).status
    return status.replicas, status.fullyLabeledReplicas, status.readyReplicas, status.availableReplicas


async def names(client: Client) -> set[str]:
    return {pod.metadata.name for pod in await pods(client)}


async def scale(client: Client, replicas: int) -> None:
    await client.patch(ReplicaSet, "web", {"spec": {"replicas": replicas}}, NAMESPACE)


async def test_pods_are_made_named_and_owned_as_in_kubernetes(client: Client, start: Start, kubelets: Kubelets) -> None:
    made = await create(client)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (3, 3, 3, 3))
        found = await pods(client)
        assert len(found) == 3
        for pod in found:
            assert pod.metadata.generateName == "web-"
            assert pod.metadata.labels == {"app": "web"}
            (owner,) = pod.metadata.ownerReferences
            assert (owner.apiVersion, owner.kind, owner.name, owner.uid) == (
                "apps/v1",
                "ReplicaSet",
                "web",
                made.metadata.uid,
            )
            assert owner.controller
            assert owner.blockOwnerDeletion
        status = (await read(client)).status
        assert (status.observedGeneration, status.terminatingReplicas, status.conditions) == (1, 0, ())
        expected = sorted(f"Created pod: {pod.metadata.name}" for pod in found)
        await becomes(lambda: events(client, "SuccessfulCreate"), expected)


async def test_the_number_of_pods_follows_the_spec(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (3, 3, 3, 3))
        await scale(client, 20)
        await becomes(lambda: counts(client), (20, 20, 20, 20))
        await scale(client, 1)
        await becomes(lambda: counts(client), (1, 1, 1, 1))
        await becomes(lambda: _count(client), 1)
        assert (await read(client)).status.observedGeneration == 3
        await becomes(lambda: told(client, "SuccessfulDelete"), 19)


async def _count(client: Client) -> int:
    return len(await pods(client))


async def test_lost_and_finished_pods_are_replaced(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 2)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (2, 2, 2, 2))
        first, second = await pods(client)
        await client.delete(Pod, first.metadata.name, NAMESPACE, grace=0)
        await kubelets.finish(second, code=1)

        async def replaced() -> tuple[int, bool]:
            alive = {pod.metadata.uid for pod in await pods(client) if pod.status.phase == "Running"}
            return len(alive), bool(alive & {first.metadata.uid, second.metadata.uid})

        await becomes(replaced, (2, False))
        await becomes(lambda: counts(client), (2, 2, 2, 2))


async def test_orphans_are_adopted_and_pods_that_no_longer_match_released(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await client.create(
        Pod, {**template(), "metadata": {"name": "stray", "labels": {"app": "web"}}}, namespace=NAMESPACE
    )
    made = await create(client, 2)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (2, 2, 2, 2))
        assert "stray" in await names(client)
        owner = (await client.get(Pod, "stray", NAMESPACE)).metadata.ownerReferences
        assert [reference.uid for reference in owner] == [made.metadata.uid]
        await client.patch(Pod, "stray", {"metadata": {"labels": {"app": "other"}}}, NAMESPACE)
        await becomes(lambda: _owners(client, "stray"), ())
        await becomes(lambda: _count(client), 3)
        await client.patch(Pod, "stray", {"metadata": {"labels": {"app": "web"}}}, NAMESPACE)  # one too many now
        await becomes(lambda: _count(client), 2)


async def _owners(client: Client, name: str) -> tuple[Any, ...]:
    return (await client.get(Pod, name, NAMESPACE)).metadata.ownerReferences


async def test_pods_of_another_controller_are_left_alone(client: Client, start: Start, kubelets: Kubelets) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1234", "controller": True}
    metadata = {"name": "theirs", "labels": {"app": "web"}, "ownerReferences": [owner]}
    await client.create(Pod, {**template(), "metadata": metadata}, namespace=NAMESPACE)
    await create(client, 1)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (1, 1, 1, 1))
        assert await _count(client) == 2


async def test_a_set_that_is_being_deleted_neither_creates_nor_adopts(client: Client, start: Start) -> None:
    await create(client, 2)
    await client.patch(ReplicaSet, "web", {"metadata": {"finalizers": ["example.com/hold"]}}, NAMESPACE)
    await client.delete(ReplicaSet, "web", NAMESPACE)
    await client.create(
        Pod, {**template(), "metadata": {"name": "stray", "labels": {"app": "web"}}}, namespace=NAMESPACE
    )
    async with start(ReplicaSetController):
        await quiet()
        (pod,) = await pods(client)
        assert pod.metadata.ownerReferences == ()


async def test_pods_that_are_missed_least_go_first(client: Client, start: Start, kubelets: Kubelets) -> None:
    ready: set[str] = set()
    kubelets.holds = lambda pod: pod.metadata.name not in ready
    await create(client, 4)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (4, 4, 0, 0))
        ready.update(sorted(await names(client))[1:3])
        kubelets.look()
        await becomes(lambda: counts(client), (4, 4, 2, 2))
        await scale(client, 2)
        await becomes(lambda: counts(client), (2, 2, 2, 2))
        assert await names(client) == ready


async def test_a_pod_is_available_after_it_was_ready_for_long_enough(client: Client, start: Start) -> None:
    clock = ManualClock()
    kubelets = Kubelets(client, clock)
    task = asyncio.create_task(kubelets.run())
    await create(client, 2, minReadySeconds=30)
    async with start(ReplicaSetController, clock=clock):
        await becomes(lambda: counts(client), (2, 2, 2, 0))
        await clock.advance(29)
        await quiet(0.02)
        assert await counts(client) == (2, 2, 2, 0)
        await clock.advance(1)
        await becomes(lambda: counts(client), (2, 2, 2, 2))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_refused_pod_is_told_in_a_condition_and_an_event(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await client.create(
        ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}, namespace=NAMESPACE
    )
    await client.patch(ResourceQuota, "q", {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}, NAMESPACE,
                       subresource="status")  # fmt: skip  # no quota controller runs here
    await create(client, 3)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (2, 2, 2, 2))

        async def reasons() -> list[tuple[str, str, str]]:
            return [(c.type, c.status, c.reason) for c in (await read(client)).status.conditions]

        await becomes(reasons, [("ReplicaFailure", "True", "FailedCreate")])
        (condition,) = (await read(client)).status.conditions
        assert "exceeded quota" in condition.message

        async def refusals() -> set[str]:
            return {text[:16] for text in await events(client, "FailedCreate")}

        await becomes(refusals, {"Error creating: "})
        await client.delete(ResourceQuota, "q", NAMESPACE)
        await becomes(lambda: counts(client), (3, 3, 3, 3))
        await becomes(reasons, [])


async def test_a_namespace_that_ends_is_no_failure(client: Client, start: Start) -> None:
    await create(client, 1, name="web")
    await client.delete(Namespace, NAMESPACE)
    async with start(ReplicaSetController):
        await quiet()
        assert (await read(client)).status.conditions == ()
        assert await events(client, "FailedCreate") == []


async def test_restarts_make_no_extra_pods(client: Client, start: Start, kubelets: Kubelets) -> None:
    seen: set[str] = set()
    kubelets.pods.add_handler(lambda deltas: seen.update(d.object.metadata.uid for d in deltas))
    await create(client, 40)
    for _ in range(6):
        async with start(ReplicaSetController):
            await asyncio.sleep(0.004)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (40, 40, 40, 40))
    assert len(seen) == 40


async def test_a_full_set_is_left_in_peace(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 3)
    async with start(ReplicaSetController):
        await becomes(lambda: counts(client), (3, 3, 3, 3))
        await quiet(0.05)
        before = (await client.list(ReplicaSet, NAMESPACE)).resource_version
        await quiet(0.2)
        assert (await client.list(ReplicaSet, NAMESPACE)).resource_version == before


# ReplicationControllers


async def test_a_replication_controller_keeps_its_pods_too(client: Client, start: Start, kubelets: Kubelets) -> None:
    tree = {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": template()}}
    made = await client.create(ReplicationController, tree, namespace=NAMESPACE)
    assert (made.spec.selector, made.metadata.labels) == ({"app": "web"}, {"app": "web"})

    async def found() -> tuple[int, ...]:
        status = (await client.get(ReplicationController, "web", NAMESPACE)).status
        return status.replicas, status.fullyLabeledReplicas, status.readyReplicas, status.availableReplicas

    async with start(ReplicationManager):
        await becomes(found, (2, 2, 2, 2))
        owners = {(r.apiVersion, r.kind, r.uid) for pod in await pods(client) for r in pod.metadata.ownerReferences}
        assert owners == {("v1", "ReplicationController", made.metadata.uid)}
        await client.patch(ReplicationController, "web", {"spec": {"replicas": 1}}, NAMESPACE)
        await becomes(found, (1, 1, 1, 1))
        await becomes(lambda: _count(client), 1)


async def test_a_replication_controller_tells_of_refused_pods(client: Client, start: Start) -> None:
    await client.create(
        ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}, namespace=NAMESPACE
    )
    tree = {"metadata": {"name": "web"}, "spec": {"template": template()}}
    await client.create(ReplicationController, tree, namespace=NAMESPACE)

    async def reasons() -> list[tuple[str, str]]:
        status = (await client.get(ReplicationController, "web", NAMESPACE)).status
        return [(c.type, c.reason) for c in status.conditions]

    async with start(ReplicationManager):
        await becomes(reasons, [("ReplicaFailure", "FailedCreate")])
