"""What other programs check of a scheduler: groups and ReplicaSets that preempt, on nodes that were given a resource by a patch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import REGISTRY

from dray.api.reasons.nodes import PreemptionCode
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.api.wire import Tree
from dray.client import PatchKind
from tests.e2e.cluster import Cluster
from tests.e2e.objects import on_node, pod
from tests.saying import words_of
from tests.scheduler.test_preemption import alive, crowded, priority_class

RESOURCE = "example.com/fake-cpu"
GATES = "GenericWorkload=true,PodGroupPreemptionPolicy=true"


@asynccontextmanager
async def patched(nodes: int = 1, amount: int = 2) -> AsyncIterator[Cluster]:
    """A cluster whose nodes have an extended resource that was added to their status."""
    async with crowded(nodes=nodes, devices=0, gates=GATES) as c:
        added = {"status": {"capacity": {RESOURCE: str(amount)}, "allocatable": {RESOURCE: str(amount)}}}
        for number in range(nodes):
            await c.client.patch(Node, f"node-{number}", added, subresource="status", kind=PatchKind.STRATEGIC)
        yield c


def needing(amount: int = 1) -> Tree:
    amounts = {RESOURCE: str(amount)}
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}]}


def wanting(name: str, level: str, *, amount: int = 1, group: str = "", node: int = 0, **more: Any) -> Tree:
    own = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return pod(name, priorityClassName=level, **needing(amount), **own, **on_node(f"node-{node}"), **more)


async def group(c: Cluster, name: str, level: str, least: int, **spec: Any) -> None:
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}, "priorityClassName": level}
    await c.create(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": {**policy, **spec}})


@pytest.mark.parametrize("mode", ["all", "single"])
@pytest.mark.parametrize("preemptor", ["a group", "a pod"])
async def test_a_group_is_preempted_in_its_disruption_mode(preemptor: str, mode: str) -> None:
    async with patched() as c:
        await group(c, "victim", "low", 2, disruptionMode={mode: {}})
        await c.create(Pod, *(wanting(f"victim-{i}", "low", group="victim") for i in range(2)))
        await c.runs("victim-0", "victim-1")
        if preemptor == "a group":
            await group(c, "preemptor", "high", 1, disruptionMode={"single": {}})
        own = "preemptor" if preemptor == "a group" else ""
        await c.create(Pod, wanting("hp", "high", group=own))
        assert (await c.runs("hp")).spec.nodeName == "node-0"

        async def left() -> list[str]:
            pods = (await c.client.list(Pod, "default")).items
            return [
                p.metadata.name
                for p in pods
                if p.metadata.name.startswith("victim") and not p.metadata.deletionTimestamp
            ]

        assert len(await left()) == (0 if mode == "all" else 1)


async def test_a_group_that_never_preempts_waits_beside_less_important_pods() -> None:
    async with patched() as c:
        await c.create(PriorityClass, priority_class("polite", 2000, preemptionPolicy="Never"))
        await c.create(Pod, *(wanting(f"low-{i}", "low") for i in range(2)))
        await c.runs("low-0", "low-1")
        await group(c, "g", "polite", 2, preemptionPolicy="Never")
        await c.create(Pod, *(wanting(f"g-{i}", "polite", group="g") for i in range(2)))
        await c.waits("g-0", words_of(PreemptionCode.NEVER))
        assert await alive(c, "low-0", "low-1")


async def test_gangs_on_two_nodes_preempt_all_pods_there() -> None:
    async with patched(nodes=2) as c:
        low = [f"low-{node}{i}" for node in range(2) for i in range(2)]
        await c.create(Pod, *(wanting(name, "low", node=int(name[4])) for name in low))
        await c.runs(*low)
        for node in range(2):
            await group(c, f"g{node}", "high", 2, disruptionMode={"single": {}})
        high = [f"g{node}-{i}" for i in range(2) for node in range(2)]
        await c.create(Pod, *(wanting(name, "high", group=name[:2], node=int(name[1])) for name in high))
        await c.runs(*high)
        for name in low:
            await c.gone(Pod, name)


async def test_replica_sets_preempt_each_other_in_the_order_of_their_priorities() -> None:
    """Each more important one takes what it needs, and no pod ends in vain."""
    async with patched(amount=1000) as c:
        seen: dict[str, set[str]] = {}
        for at, (replicas, amount) in enumerate(((5, 200), (4, 300), (4, 450)), 1):
            await c.create(PriorityClass, priority_class(f"p{at}", at))
            labels = {"name": f"pod{at}"}
            template = pod(
                "x", labels=labels, priorityClassName=f"p{at}", terminationGracePeriodSeconds=0, **needing(amount)
            )
            spec = {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            }
            await c.create(ReplicaSet, {"metadata": {"name": f"rs{at}", "namespace": "default"}, "spec": spec})
            expected = {1: {"pod1": 5}, 2: {"pod2": 3}, 3: {"pod3": 2}}[at]

            async def running(expected: dict[str, int] = expected) -> bool:
                pods = (await c.client.list(Pod, "default")).items
                for one in pods:
                    seen.setdefault(one.metadata.labels["name"], set()).add(one.metadata.uid)
                counts = {
                    name: sum(
                        p.status.phase == "Running"
                        and not p.metadata.deletionTimestamp
                        and p.metadata.labels["name"] == name
                        for p in pods
                    )
                    for name in expected
                }
                return counts == expected

            await c.eventually(running)
        assert len(seen["pod2"]) <= 4 + 3
        assert len(seen["pod3"]) == 4


async def test_metrics_have_the_names_that_others_know() -> None:
    async with patched() as c:
        before = {name: REGISTRY.get_sample_value(name) or 0 for name in NAMES}
        await c.create(Pod, wanting("low-0", "low"))
        await c.runs("low-0")
        await group(c, "g", "high", 2)
        await c.create(Pod, *(wanting(f"g-{i}", "high", group="g") for i in range(2)))
        await c.runs("g-0", "g-1")
        await c.create(Pod, wanting("top", "system-node-critical"))
        await c.runs("top")
        for name in NAMES:
            assert (REGISTRY.get_sample_value(name) or 0) > before[name], name
        labels = {"result": "scheduled", "profile": "default-scheduler"}
        assert (REGISTRY.get_sample_value("scheduler_podgroup_schedule_attempts_total", labels) or 0) >= 1


NAMES = (
    "scheduler_preemption_victims_count",
    "scheduler_preemption_attempts_total",
    "scheduler_workload_preemption_attempts_total",
    "scheduler_workload_preemption_victims_count",
)
