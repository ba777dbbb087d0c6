"""What Kubernetes' end-to-end specs for scheduling describe: predicates, priorities and preemption, on simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Event, Node, Pod
from dray.api.wire import Tree
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import on_node, pod
from tests.scheduler.test_preemption import alive, crowded, leaves, let_go, nominated, of, placed, run_slowly
from tests.scheduler.test_scheduler import needs

ZONE = "zone"


def with_container(tree: Tree, **more: Any) -> Tree:
    (container,) = tree["spec"]["containers"]
    return tree | {"spec": {**tree["spec"], "containers": [container | more]}}


def on_port(name: str, address: str = "", protocol: str = "TCP", port: int = 54321) -> Tree:
    entry = {"containerPort": 80, "hostPort": port, "protocol": protocol} | ({"hostIP": address} if address else {})
    return with_container(pod(name), ports=[entry])


async def in_zones(c: Cluster) -> None:
    for number in range(c.nodes):
        await c.client.patch(Node, f"node-{number}", {"metadata": {"labels": {ZONE: f"z{number}"}}})


def spread(when: str = "DoNotSchedule", app: str = "spread") -> Tree:
    selector = {"matchLabels": {"app": app}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
        ]
    }


async def test_pods_that_use_a_host_port_on_other_addresses_or_protocols_share_a_node() -> None:
    async with cluster(nodes=1) as c:
        await c.create(Pod, on_port("a", "127.0.0.1"), on_port("b", "127.0.0.2"), on_port("c", "127.0.0.2", "UDP"))
        await c.runs("a", "b", "c")


async def test_a_host_port_on_all_addresses_conflicts_with_one_on_any() -> None:
    async with cluster(nodes=1) as c:
        await c.create(Pod, on_port("all"))
        await c.runs("all")
        await c.create(Pod, on_port("one", "127.0.0.1"))
        await c.waits("one")


async def test_four_pods_are_spread_evenly_over_two_zones() -> None:
    async with cluster(nodes=2) as c:
        await in_zones(c)
        for number in range(4):
            await c.create(Pod, pod(f"p{number}", labels={"app": "spread"}, **spread()))
        nodes = [(await c.runs(f"p{number}")).spec.nodeName for number in range(4)]
        assert sorted(nodes) == ["node-0", "node-0", "node-1", "node-1"]


async def test_a_pod_prefers_the_zone_that_makes_others_more_even() -> None:
    async with cluster(nodes=2) as c:
        await in_zones(c)
        for number in range(3):
            await c.create(Pod, pod(f"old-{number}", labels={"app": "spread"}, **on_node("node-0")))
        await c.runs("old-0", "old-1", "old-2")
        await c.create(Pod, pod("p", labels={"app": "spread"}, **spread("ScheduleAnyway")))
        assert (await c.runs("p")).spec.nodeName == "node-1"


async def test_sidecars_count_with_the_containers_of_a_pod() -> None:
    async with cluster(nodes=1) as c:
        sidecar = {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "40"}}}
        await c.create(Pod, pod("p", initContainers=[sidecar], **needs("40")))
        await c.waits("p")


async def test_a_pod_that_must_be_spread_preempts_where_that_makes_others_even() -> None:
    """Node-0 has a pod of the application, so another one would be one too many; on node-1 somebody less important is in the way."""
    async with crowded(nodes=2, devices=0) as c:
        await in_zones(c)
        label = {"app": "spread"}
        await c.create(Pod, of("mid", "same", labels=label, **on_node("node-0"), **needs("5")))
        await c.create(Pod, of("low", "filler", **on_node("node-1"), **needs("60")))
        await c.runs("same", "filler")
        await c.create(Pod, of("high", "p", labels=label, **spread(), **needs("30")))
        assert (await c.runs("p")).spec.nodeName == "node-1"
        await c.gone(Pod, "filler")
        assert await alive(c, "same")


async def test_replicas_of_more_important_sets_take_the_places_of_others_and_nobody_goes_twice() -> None:
    """A node has room for six pods: three of each of two sets; then a third set displaces two of the least important one."""

    def replicas(name: str, level: str, count: int) -> Tree:
        labels = {"app": name}
        template = of(level, "x", labels=labels, **needs("10"))
        spec = {"replicas": count, "selector": {"matchLabels": labels}}
        spec["template"] = {"metadata": {"labels": labels}, "spec": template["spec"]}
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }

    async with crowded(devices=0) as c:

        async def run(name: str, count: int) -> bool:
            pods = (await c.client.list(Pod, "default")).items
            return sum(one.status.phase == "Running" and one.metadata.labels["app"] == name for one in pods) == count

        for name, level, count in (("low", "low", 3), ("mid", "mid", 3)):
            await c.create(ReplicaSet, replicas(name, level, count))
            await c.eventually(lambda: run(name, count))  # noqa: B023 (asked at once)
        await c.create(ReplicaSet, replicas("high", "high", 2))
        await c.eventually(lambda: run("high", 2))
        await c.eventually(lambda: run("low", 1))
        assert await run("mid", 3)
        waiting = [one for one in (await c.client.list(Pod, "default")).items if not one.spec.nodeName]
        assert {one.metadata.labels["app"] for one in waiting} == {"low"}
        for one in waiting:
            await c.waits(one.metadata.name, "preemption")
        events = (await c.client.list(Event, "default")).items
        assert sum(one.reason == "Preempted" for one in events) == 2


@pytest.mark.parametrize("ends", ["the preemptor goes", "the victim goes"])
async def test_less_important_pods_get_a_place_only_when_the_preemptor_needs_it_no_more(ends: str) -> None:
    async with crowded(devices=0) as c:
        await c.create(Pod, of("low", "victim", **needs("40")))
        await run_slowly(c, "victim")
        await c.create(Pod, of("high", "p", **needs("40")))
        await nominated(c, "p")
        await leaves(c, "victim")
        await c.create(Pod, of("mid", "next", **needs("40")))
        await c.waits("next")
        if ends == "the preemptor goes":
            await c.delete(Pod, "p", grace=0)
            await let_go(c, "victim")
            await placed(c, "next")
        else:
            await let_go(c, "victim")
            await placed(c, "p")
            await c.quiet(0.1)
            assert not (await c.pod("next")).spec.nodeName
