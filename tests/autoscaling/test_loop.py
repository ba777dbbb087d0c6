"""The loop on a real API server with scheduler, controllers and simulated nodes that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dray.api.types.apps import Deployment
from dray.api.types.core import Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaimTemplate, ResourceSlice
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.loop import Autoscaler
from dray.autoscaling.provider import GroupStatus, ProviderError
from dray.autoscaling.simulated import SimulatedProvider
from dray.client import SharedInformers
from dray.sim.hardware import CLASS
from tests import objects as builders
from tests.autoscaling.test_planner import group, groups
from tests.e2e import objects
from tests.e2e.cluster import NODES, Cluster, cluster
from tests.waiting import within


class Setting:
    """A cluster without nodes, a provider of simulated ones, and a loop whose clock the test turns."""

    def __init__(self, cluster: Cluster, found: NodeGroups) -> None:
        self.cluster = cluster
        self.now = 0.0
        self.provider = SimulatedProvider(cluster.parts[NODES].work, found)
        self.informers = SharedInformers(cluster.client)
        self.scaler = Autoscaler(cluster.client, self.informers, self.provider, found, now=lambda: self.now)

    async def names(self, type_: type[Any] = Node) -> list[str]:
        return sorted(one.metadata.name for one in (await self.cluster.client.list(type_)).items)

    async def running(self, count: int) -> None:
        async def look() -> bool:
            pods = (await self.cluster.client.list(Pod, "default")).items
            return sum(pod.status.phase == "Running" for pod in pods) == count

        await self.cluster.eventually(look)

    async def seen(self, type_: type[Any], count: int) -> None:
        """Wait until the loop knows so many objects."""

        async def look() -> bool:
            return len([*self.informers.informer(type_).list()]) == count

        await self.cluster.eventually(look)

    async def until_left(self, count: int) -> None:
        """Take turns until so many nodes are left."""

        async def look() -> bool:
            await self.scaler.step()
            return len(await self.names()) == count

        await self.cluster.eventually(look)


@asynccontextmanager
async def setting(*written: dict[str, Any], **settings: Any) -> AsyncIterator[Setting]:
    found = groups(*written, **settings)
    async with cluster(nodes=0, devices=0) as made:
        one = Setting(made, found)
        await one.informers.start()
        await within(one.informers.synced())
        task = asyncio.create_task(one.provider.run())
        classes = [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}}]
        await made.parts[NODES].work.add(classes)
        await made.create(ResourceClaimTemplate, objects.template("gpu"))
        try:
            yield one
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await one.informers.stop()


def deployment(name: str, replicas: int) -> dict[str, Any]:
    made = objects.pod("x", templates=["gpu"])
    return builders.deployment(name, replicas, namespace="default", **made["spec"])


async def test_nodes_come_for_pods_that_wait_and_go_when_nobody_needs_them() -> None:
    async with setting(group("a", 2, max=3), unneededSeconds=60) as one:
        await one.cluster.create(Deployment, deployment("work", 3))
        await one.seen(Pod, 3)
        decision = await one.scaler.step()
        assert decision.plan.increases == {"a": 2}
        await one.running(3)
        assert await one.names() == ["a-0", "a-1"]
        assert await one.names(ResourceSlice)
        await one.cluster.client.patch(Deployment, "work", {"spec": {"replicas": 1}}, "default")
        await one.running(1)

        async def one_is_not_needed() -> bool:
            return len((await one.scaler.step()).down.removals) == 1

        await one.cluster.eventually(one_is_not_needed)
        assert len(await one.names()) == 2  # not needed, but not for long enough

        async def one_is_left() -> bool:
            one.now += 60  # late news may have begun the minute anew
            await one.scaler.step()
            return len(await one.names()) == 1

        await one.cluster.eventually(one_is_left)
        await one.running(1)


async def test_a_node_is_emptied_under_budgets_before_it_goes() -> None:
    async with setting(group("a", 4, max=2), unneededSeconds=0) as one:
        await one.cluster.create(Deployment, deployment("work", 5))
        await one.seen(Pod, 5)
        await one.scaler.step()
        await one.running(5)
        budget = {"metadata": {"name": "all", "namespace": "default"}, "spec": {"maxUnavailable": 0}}
        budget["spec"]["selector"] = {"matchLabels": {"app": "work"}}
        await one.cluster.create(PodDisruptionBudget, budget)
        await one.cluster.client.patch(Deployment, "work", {"spec": {"replicas": 2}}, "default")
        await one.running(2)
        await one.seen(Pod, 2)
        await one.seen(PodDisruptionBudget, 1)
        there = {pod.spec.nodeName for pod in (await one.cluster.client.list(Pod, "default")).items}
        if len(there) == 2:  # each node has a pod that the budget protects
            assert not (await one.scaler.step()).down.removals
        await one.cluster.delete(PodDisruptionBudget, "all")
        await one.seen(PodDisruptionBudget, 0)
        await one.until_left(1)
        await one.running(2)


async def test_nodes_on_order_are_not_ordered_twice() -> None:
    async with setting(group("a", 1, max=5, startSeconds=0.3, publishSeconds=0.3)) as one:
        await one.cluster.create(Pod, objects.pod("p", templates=["gpu"]))
        await one.seen(Pod, 1)
        assert (await one.scaler.step()).plan.increases == {"a": 1}

        async def runs() -> bool:
            assert not (await one.scaler.step()).plan.nodes
            return (await one.cluster.pod("p")).status.phase == "Running"

        await one.cluster.eventually(runs)
        assert await one.names() == ["a-0"]


async def test_a_group_that_does_not_deliver_is_cancelled_and_another_one_is_asked() -> None:
    never, dear = group("never", 1, 1.0, startSeconds=9999, min=1), group("dear", 1, 5.0)
    async with setting(never, dear, provisionSeconds=100, backoffSeconds=1000) as one:
        await one.cluster.create(Pod, objects.pod("p", templates=["gpu"]))
        await one.seen(Pod, 1)
        assert (await one.scaler.step()).plan.increases == {"never": 1}
        one.now = 99
        assert not (await one.scaler.step()).plan.nodes
        one.now = 101
        assert (await one.scaler.step()).plan.increases == {"dear": 1}
        assert [status.target for status in await one.provider.groups()] == [0, 1]
        await one.cluster.runs("p")


async def test_a_provider_that_refuses_closes_the_group() -> None:
    async with setting(group("a", 1), group("b", 1, 5.0), backoffSeconds=10) as one:

        async def refuse(name: str, count: int) -> None:
            raise ProviderError("sold out")

        one.provider.increase = refuse  # type: ignore[method-assign]
        await one.cluster.create(Pod, objects.pod("p", templates=["gpu"]))
        await one.seen(Pod, 1)
        assert (await one.scaler.step()).plan.increases == {"a": 1}
        assert (await one.scaler.step()).plan.increases == {"b": 1}
        one.now = 10
        assert (await one.scaler.step()).plan.increases == {"a": 1}


async def test_the_provider_keeps_its_limits_and_knows_its_nodes() -> None:
    async with setting(group("a", 1, min=0, max=2, available=1)) as one:
        for wrong in (("a", 0), ("a", 3), ("a", 2), ("z", 1)):
            try:
                await one.provider.increase(*wrong)
            except ProviderError:
                continue
            raise AssertionError(wrong)
        await one.provider.increase("a", 1)

        async def there() -> bool:
            return await one.names() == ["a-0"]

        await one.cluster.eventually(there)
        again = SimulatedProvider(one.cluster.parts[NODES].work, groups(group("a", 1)))
        again.adopt((await one.cluster.client.list(Node)).items)
        found = await again.groups()
        assert found == [GroupStatus("a", 0, 5, 1, found[0].instances)]
        assert [instance.id for instance in found[0].instances] == ["dray://a-0"]


async def test_a_decision_is_kept_while_nothing_changes() -> None:
    async with setting(group("a", 1, min=1)) as one:
        await one.scaler.step()

        async def settled() -> bool:
            decision = await one.scaler.step()
            return decision is await one.scaler.step()

        await one.cluster.eventually(settled)
        kept = await one.scaler.step()
        await one.cluster.create(Pod, objects.pod("p", templates=["gpu"]))
        await one.seen(Pod, 1)
        assert await one.scaler.step() is not kept
