"""Deployments on a real server: rollouts with nodes that are played."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.types.apps import Deployment, ReplicaSet
from dray.api.types.core import Pod
from dray.client import Client, ManualClock
from dray.controllers.workloads.deployments import DeploymentController
from dray.controllers.workloads.replicasets import ReplicaSetController
from dray.controllers.workloads.revisions import REVISION, REVISION_HISTORY
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, events, pods, template

BOTH = (DeploymentController, ReplicaSetController)


async def create(client: Client, replicas: int = 4, **spec: Any) -> Deployment:
    tree = {
        "metadata": {"name": "web", "annotations": {"team": "blue"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }
    return await client.create(Deployment, tree, namespace=NAMESPACE)


async def read(client: Client) -> Deployment:
    return await client.get(Deployment, "web", NAMESPACE)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(Deployment, "web", {"spec": spec}, NAMESPACE)


async def set_value(client: Client, value: str) -> None:
    """Change the template."""
    await change(client, template=template(value=value))


async def is_done(client: Client) -> bool:
    """What `kubectl rollout status` waits for."""
    found = await read(client)
    status, goal = found.status, found.spec.replicas
    return (
        status.observedGeneration >= found.metadata.generation
        and status.updatedReplicas == status.replicas == status.availableReplicas == goal
    )


async def done(client: Client) -> None:
    await becomes(lambda: is_done(client), True)


async def conditions(client: Client) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in (await read(client)).status.conditions}


async def sets(client: Client) -> dict[str, int | None]:
    """Size by revision."""
    found = (await client.list(ReplicaSet, NAMESPACE)).items
    return {one.metadata.annotations[REVISION]: one.spec.replicas for one in found}


async def test_a_new_deployment_gets_its_set_its_pods_and_its_status(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    made = await create(client)
    async with start(*BOTH):
        await done(client)
        (one,) = (await client.list(ReplicaSet, NAMESPACE)).items
        (owner,) = one.metadata.ownerReferences
        assert (owner.kind, owner.uid, owner.controller, owner.blockOwnerDeletion) == (
            "Deployment",
            made.metadata.uid,
            True,
            True,
        )
        hash_ = one.metadata.labels["pod-template-hash"]
        assert one.metadata.name == f"web-{hash_}"
        assert one.metadata.labels == one.spec.template.metadata.labels == {"app": "web", "pod-template-hash": hash_}
        assert one.spec.selector is not None
        assert one.spec.selector.matchLabels == {"app": "web", "pod-template-hash": hash_}
        assert one.metadata.annotations == {
            "team": "blue",
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "4",
            "deployment.kubernetes.io/max-replicas": "5",
        }
        assert all(pod.metadata.labels["pod-template-hash"] == hash_ for pod in await pods(client))
        assert await conditions(client) == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        found = await read(client)
        assert found.metadata.annotations[REVISION] == "1"
        assert (found.status.readyReplicas, found.status.unavailableReplicas) == (4, 0)
        await becomes(
            lambda: events(client, "ScalingReplicaSet"), [f"Scaled up replica set {one.metadata.name} from 0 to 4"]
        )


@pytest.mark.local_store  # counts pods in between; writes to an etcd take long enough that old pods are still being deleted
async def test_a_rolling_update_never_has_too_many_or_too_few_pods(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 8, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": "25%"}})
    async with start(*BOTH):
        await done(client)
        extremes = _watch_extremes(kubelets)
        await set_value(client, "2")
        await done(client)
        assert await sets(client) == {"1": 0, "2": 8}
        assert extremes["most"] <= 10
        assert extremes["fewest ready"] >= 6
        assert extremes["most"] > 8  # the surge was used


def _watch_extremes(kubelets: Kubelets) -> dict[str, int]:
    extremes = {"most": 0, "fewest ready": 1000}

    def note(_: object) -> None:
        alive = [pod for pod in kubelets.pods.list() if pod.metadata.deletionTimestamp is None]
        ready = [pod for pod in alive if pod.status.phase == "Running"]
        extremes["most"] = max(extremes["most"], len(alive))
        extremes["fewest ready"] = min(extremes["fewest ready"], len(ready))

    kubelets.pods.add_handler(note)
    return extremes


async def test_a_rollout_that_hangs_keeps_the_old_pods(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    async with start(*BOTH):
        await done(client)
        kubelets.holds = lambda pod: True
        await set_value(client, "bad")
        await becomes(lambda: sets(client), {"1": 3, "2": 2})
        await quiet(0.05)
        assert await sets(client) == {"1": 3, "2": 2}
        assert (await conditions(client))["Available"] == ("True", "MinimumReplicasAvailable")
        await set_value(client, "1")  # back again: the old set is the new one, under a new revision
        await becomes(lambda: sets(client), {"3": 4, "2": 0})


async def test_recreation_waits_until_the_last_old_pod_is_gone(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 3, strategy={"type": "Recreate"})
    async with start(*BOTH):
        await done(client)
        kubelets.lingers = lambda pod: True
        await set_value(client, "2")
        await becomes(lambda: sets(client), {"1": 0})
        await quiet(0.05)
        assert await sets(client) == {"1": 0}
        assert len(await pods(client)) == 3
        kubelets.lingers = lambda pod: False
        kubelets.look()
        await done(client)
        assert await sets(client) == {"1": 0, "2": 3}


async def test_the_size_follows_the_spec_up_down_and_to_nothing(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 2)
    async with start(*BOTH):
        for replicas in (6, 1, 0, 3):
            await change(client, replicas=replicas)
            await done(client)
            assert await sets(client) == {"1": replicas}
            await becomes(lambda: _running(client), replicas)


async def _running(client: Client) -> int:
    return len(await pods(client))


async def test_scaling_in_the_middle_of_a_rollout_is_shared_in_proportion(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    async with start(*BOTH):
        await done(client)
        kubelets.holds = lambda pod: True
        await set_value(client, "2")
        await becomes(lambda: sets(client), {"1": 8, "2": 5})
        await change(client, replicas=15)
        await becomes(lambda: sets(client), {"1": 11, "2": 7})
        kubelets.holds = lambda pod: False
        kubelets.look()
        await done(client)
        assert await sets(client) == {"1": 0, "2": 15}


async def test_an_undone_rollout_comes_back_as_the_newest_revision(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 2)
    async with start(*BOTH):
        await done(client)
        await set_value(client, "2")
        await done(client)
        # `kubectl rollout undo` patches the template of the former set into the deployment.
        await set_value(client, "1")
        await done(client)
        assert await sets(client) == {"2": 0, "3": 2}
        assert (await read(client)).metadata.annotations[REVISION] == "3"
        (back,) = [s for s in (await client.list(ReplicaSet, NAMESPACE)).items if s.spec.replicas]
        assert back.metadata.annotations[REVISION_HISTORY] == "1"


async def test_old_revisions_beyond_the_limit_are_deleted(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 1, revisionHistoryLimit=2)
    async with start(*BOTH):
        await done(client)
        for value in "23456":
            await set_value(client, value)
            await done(client)
        await becomes(lambda: sets(client), {"4": 0, "5": 0, "6": 1})


async def test_a_paused_deployment_scales_but_does_not_roll(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 2)
    async with start(*BOTH):
        await done(client)
        await change(client, paused=True)
        await becomes(lambda: _progressing(client), ("Unknown", "DeploymentPaused"))
        await set_value(client, "2")
        await change(client, replicas=3)
        await becomes(lambda: sets(client), {"1": 3})
        await quiet(0.05)
        assert await sets(client) == {"1": 3}
        await change(client, paused=False)
        await done(client)
        assert await sets(client) == {"1": 0, "2": 3}
        await becomes(lambda: _progressing(client), ("True", "NewReplicaSetAvailable"))


async def _progressing(client: Client) -> tuple[str, str] | None:
    return (await conditions(client)).get("Progressing")


async def test_a_rollout_without_progress_exceeds_its_deadline(client: Client, start: Start) -> None:
    clock = ManualClock()
    await create(client, 2, progressDeadlineSeconds=60)
    async with start(*BOTH, clock=clock):
        await becomes(lambda: sets(client), {"1": 2})
        await becomes(lambda: _progressing(client), ("True", "ReplicaSetUpdated"))
        assert (await conditions(client))["Available"] == ("False", "MinimumReplicasUnavailable")
        await clock.advance(59)
        await quiet(0.02)
        assert await _progressing(client) == ("True", "ReplicaSetUpdated")
        await clock.advance(5)
        await becomes(lambda: _progressing(client), ("False", "ProgressDeadlineExceeded"))


async def test_a_fitting_set_without_owner_is_adopted_instead_of_made_anew(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    tree = {"metadata": {"name": "early", "labels": {"app": "web"}}, "spec": spec}
    await client.create(ReplicaSet, tree, namespace=NAMESPACE)
    await create(client, 2)
    async with start(*BOTH):
        await done(client)
        (one,) = (await client.list(ReplicaSet, NAMESPACE)).items
        assert one.metadata.name == "early"
        assert one.metadata.ownerReferences[0].kind == "Deployment"


async def test_a_name_that_is_taken_leads_to_another_hash(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 1)
    async with start(*BOTH):
        await done(client)
    (one,) = (await client.list(ReplicaSet, NAMESPACE)).items
    await client.delete(Deployment, "web", NAMESPACE, propagation="Orphan")
    await client.patch(Deployment, "web", {"metadata": {"finalizers": None}}, NAMESPACE)
    other = {"app": "stranger"}
    await client.delete(ReplicaSet, one.metadata.name, NAMESPACE)
    spec = {"replicas": 0, "selector": {"matchLabels": other}, "template": template(other)}
    await client.create(ReplicaSet, {"metadata": {"name": one.metadata.name}, "spec": spec}, namespace=NAMESPACE)
    await create(client, 1)
    async with start(*BOTH):
        await done(client)
        assert (await read(client)).status.collisionCount == 1
        assert len((await client.list(ReplicaSet, NAMESPACE)).items) == 2


async def test_a_refused_pod_shows_in_the_deployments_conditions(client: Client, start: Start) -> None:
    await create(client, 1, template=template(priorityClassName="nope"))
    async with start(*BOTH):
        await becomes(lambda: _failure(client), ("True", "FailedCreate"))


async def _failure(client: Client) -> tuple[str, str] | None:
    return (await conditions(client)).get("ReplicaFailure")


@pytest.mark.local_store  # a write that was given up may be carried out later elsewhere
async def test_restarts_in_the_middle_of_a_rollout_make_no_extra_pods(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, 12, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}})
    async with start(*BOTH):
        await done(client)
    seen: set[str] = set()
    extremes = _watch_extremes(kubelets)
    kubelets.pods.add_handler(lambda deltas: seen.update(d.object.metadata.uid for d in deltas))
    await set_value(client, "2")
    restarts = 0
    while not await is_done(client):
        async with start(*BOTH):
            await asyncio.sleep(0.01 + restarts / 1000)  # a busy machine needs longer to get anywhere
        restarts += 1
        assert restarts < 200
    assert restarts > 1
    assert len(seen) == 24
    assert extremes["most"] <= 15
    assert extremes["fewest ready"] >= 12
    assert await sets(client) == {"1": 0, "2": 12}


async def test_a_finished_rollout_writes_nothing_more(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, 2)
    async with start(*BOTH):
        await done(client)
        await quiet(0.05)
        before = (await client.list(Pod, NAMESPACE)).resource_version
        await quiet(0.2)
        assert (await client.list(Pod, NAMESPACE)).resource_version == before
