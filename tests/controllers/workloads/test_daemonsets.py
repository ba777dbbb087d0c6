"""DaemonSets on a real server, with nodes that are played."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node, Pod
from dray.client import Client, ManualClock
from dray.controllers.workloads.daemonsets import DaemonSetController
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, pods, template, told


async def add_node(client: Client, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
    await client.create(Node, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})


@pytest.fixture(autouse=True)
async def nodes(client: Client) -> None:
    for number in range(1, 4):
        await add_node(client, f"node-{number}", {"number": str(number)})


async def create(client: Client, **spec: Any) -> DaemonSet:
    tree = {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }
    return await client.create(DaemonSet, tree, namespace=NAMESPACE)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(DaemonSet, "agent", {"spec": spec}, NAMESPACE)


async def counts(client: Client) -> tuple[int, ...]:
    status = (await client.get(DaemonSet, "agent", NAMESPACE)).status
    return (
        status.desiredNumberScheduled,
        status.currentNumberScheduled,
        status.numberReady,
        status.updatedNumberScheduled,
        status.numberAvailable,
        status.numberUnavailable,
        status.numberMisscheduled,
    )


def full(count: int) -> tuple[int, ...]:
    return count, count, count, count, count, 0, 0


async def where(client: Client) -> list[str]:
    return sorted(pod.spec.nodeName for pod in await pods(client))


async def test_every_node_gets_one_pod_bound_to_it_by_affinity(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    made = await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        found = await pods(client)
        assert sorted(pod.spec.nodeName for pod in found) == ["node-1", "node-2", "node-3"]
        for pod in found:
            (owner,) = pod.metadata.ownerReferences
            assert (owner.kind, owner.uid, owner.controller) == ("DaemonSet", made.metadata.uid, True)
            assert pod.metadata.generateName == "agent-"
            assert pod.metadata.labels["controller-revision-hash"]
            assert pod.spec.affinity is not None
            assert pod.spec.affinity.nodeAffinity is not None
            required = pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
            assert required is not None
            (term,) = required.nodeSelectorTerms
            assert (term.matchFields[0].key, term.matchFields[0].values) == ("metadata.name", (pod.spec.nodeName,))
            tolerated = {(t.key, t.operator, t.effect) for t in pod.spec.tolerations}
            assert ("node.kubernetes.io/unschedulable", "Exists", "NoSchedule") in tolerated
            assert ("node.kubernetes.io/not-ready", "Exists", "NoExecute") in tolerated
            assert not any(key == "node.kubernetes.io/network-unavailable" for key, _, _ in tolerated)
        assert (await client.get(DaemonSet, "agent", NAMESPACE)).status.observedGeneration == 1


async def test_pods_come_with_nodes(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        await add_node(client, "node-4")
        await becomes(lambda: counts(client), full(4))


async def test_a_pod_that_never_reached_its_node_goes_with_the_node(client: Client, start: Start) -> None:
    await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: _count(client), 3)  # nobody schedules them
        await client.delete(Node, "node-2")
        await becomes(lambda: _count(client), 2)
        await becomes(lambda: counts(client), (2, 2, 0, 2, 0, 2, 0))


async def _count(client: Client) -> int:
    return len(await pods(client))


async def test_selectors_and_affinity_choose_nodes_and_labels_may_change(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, template=template(nodeSelector={"number": "2"}))
    async with start(DaemonSetController):
        await becomes(lambda: where(client), ["node-2"])
        await client.patch(Node, "node-3", {"metadata": {"labels": {"number": "2"}}})
        await becomes(lambda: where(client), ["node-2", "node-3"])
        await client.patch(Node, "node-2", {"metadata": {"labels": {"number": "9"}}})
        await becomes(lambda: where(client), ["node-3"])
        await becomes(lambda: counts(client), full(1))


async def test_taints_keep_pods_off_and_only_no_execute_drives_them_away(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await add_node(client, "cordoned", unschedulable=True, taints=[_taint("node.kubernetes.io/unschedulable")])
    await add_node(client, "reserved", taints=[_taint("dedicated")])
    await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: where(client), ["cordoned", "node-1", "node-2", "node-3"])
        await client.patch(Node, "node-1", {"spec": {"taints": [_taint("dedicated")]}})
        await becomes(lambda: counts(client), (3, 3, 3, 3, 3, 0, 1))
        await client.patch(Node, "node-1", {"spec": {"taints": [_taint("dedicated", "NoExecute")]}})
        await becomes(lambda: where(client), ["cordoned", "node-2", "node-3"])
        await becomes(lambda: counts(client), full(3))


def _taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "effect": effect}


async def test_a_rolling_update_replaces_pods_one_by_one(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        fewest = 3

        def note(_: object) -> None:
            nonlocal fewest
            alive = [p for p in kubelets.pods.list() if p.metadata.deletionTimestamp is None]
            fewest = min(fewest, sum(p.status.phase == "Running" for p in alive))

        kubelets.pods.add_handler(note)
        before = {pod.metadata.uid for pod in await pods(client)}
        await change(client, template=template(value="2"))
        await becomes(lambda: _kept(client, before), 0)
        await becomes(lambda: counts(client), full(3))
        assert fewest == 2


async def _kept(client: Client, uids: set[str]) -> int:
    return len(uids & {pod.metadata.uid for pod in await pods(client)})


async def test_an_update_that_does_not_work_stops_at_the_bearable_loss(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client)
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        kubelets.holds = lambda pod: True
        await change(client, template=template(value="2"))
        await becomes(lambda: counts(client), (3, 3, 2, 1, 2, 1, 0))
        await quiet(0.05)
        assert await counts(client) == (3, 3, 2, 1, 2, 1, 0)


async def test_a_surge_puts_the_new_pod_beside_the_old_one_first(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        kubelets.holds = lambda pod: True
        await change(client, template=template(value="2"))
        await becomes(lambda: _count(client), 4)
        await quiet(0.05)
        assert await _count(client) == 4
        kubelets.holds = lambda pod: False
        kubelets.look()
        await becomes(lambda: counts(client), full(3))
        await becomes(lambda: _count(client), 3)


async def test_on_delete_waits_for_somebody_to_delete(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, updateStrategy={"type": "OnDelete"})
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(3))
        await change(client, template=template(value="2"))
        await becomes(lambda: counts(client), (3, 3, 3, 0, 3, 0, 0))
        (victim, *_) = await pods(client)
        await client.delete(Pod, victim.metadata.name, NAMESPACE)
        await becomes(lambda: counts(client), (3, 3, 3, 1, 3, 0, 0))


async def test_a_pod_that_ends_is_replaced_and_the_second_time_after_a_pause(client: Client, start: Start) -> None:
    clock = ManualClock()
    kubelets = Kubelets(client, clock)
    task = asyncio.create_task(kubelets.run())
    await create(client, template=template(nodeSelector={"number": "1"}))
    async with start(DaemonSetController, clock=clock):
        await becomes(lambda: counts(client), full(1))
        first = await _end(client, kubelets)
        await becomes(lambda: _kept(client, {first}), 0)
        await becomes(lambda: counts(client), full(1))
        second = await _end(client, kubelets)
        await quiet(0.05)
        assert await _kept(client, {second}) == 1
        await clock.advance(1.5)
        await becomes(lambda: _kept(client, {second}), 0)
        await becomes(lambda: told(client, "FailedDaemonPod"), 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_that_ended_and_is_held_by_a_finalizer_is_replaced(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, template=template(nodeSelector={"number": "1"}))
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(1))
        (held,) = await pods(client)
        await client.patch(Pod, held.metadata.name, {"metadata": {"finalizers": ["test/hold"]}}, NAMESPACE)
        await kubelets.finish(held, code=1)
        await becomes(lambda: _phases(client), ["Failed", "Running"])
        await becomes(lambda: counts(client), full(1))
        await client.patch(Pod, held.metadata.name, {"metadata": {"finalizers": None}}, NAMESPACE)


async def _end(client: Client, kubelets: Kubelets) -> str:
    await becomes(lambda: _phases(client), ["Running"])
    (pod,) = await pods(client)
    await kubelets.finish(pod, code=1)
    return pod.metadata.uid


async def _phases(client: Client) -> list[str]:
    return sorted(pod.status.phase for pod in await pods(client))


async def test_restarts_make_no_extra_pods(client: Client, start: Start, kubelets: Kubelets) -> None:
    for number in range(4, 31):
        await add_node(client, f"node-{number}")
    seen: set[str] = set()
    kubelets.pods.add_handler(lambda deltas: seen.update(d.object.metadata.uid for d in deltas))
    await create(client)
    for _ in range(5):
        async with start(DaemonSetController):
            await asyncio.sleep(0.004)
    async with start(DaemonSetController):
        await becomes(lambda: counts(client), full(30))
    assert len(seen) == 30
