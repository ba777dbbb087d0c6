"""Preemption on a real API server: what happens to victims, and what is kept for whom until they are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.allocations import DeviceId, Taken
from dray.api.errors import InternalError
from dray.api.reasons import wording
from dray.api.reasons.nodes import NodeCode, NoPreemption, PreemptionCode
from dray.api.types.core import Event, Namespace, Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.api.wire import Tree
from dray.core.state import ROOM_AND_DEVICES
from dray.sim.hardware import DRIVER
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import Hold, Write
from tests.e2e.objects import claim, on_node, pod, request, template
from tests.saying import refused
from tests.scheduler.test_scheduler import add_node, needs, unplaced

LEVELS = {"low": 100, "mid": 500, "high": 1000}


@asynccontextmanager
async def crowded(nodes: int = 1, devices: int = 2, **settings: Any) -> AsyncIterator[Cluster]:
    """A cluster with priority classes."""
    async with cluster(nodes=nodes, devices=devices, **settings) as c:
        for name, value in LEVELS.items():
            await c.create(PriorityClass, priority_class(name, value))
        yield c


def priority_class(name: str, value: int, **more: Any) -> Tree:
    version = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**version, "metadata": {"name": name}, "value": value, **more}


def of(level: str, name: str, **more: Any) -> Tree:
    return pod(name, priorityClassName=level, **more)


async def run_slowly(c: Cluster, *names: str) -> None:
    """Wait until pods run. From then on, pods end only when they are let go."""
    await c.runs(*names)
    await c.stop(NODES)


async def let_go(c: Cluster, *names: str) -> None:
    for name in names:
        await c.delete(Pod, name, grace=0)


async def placed(c: Cluster, name: str) -> str:
    """Wait until a pod has a node; its name."""

    async def look() -> str:
        return (await c.pod(name)).spec.nodeName

    return await c.eventually(look)


async def leaves(c: Cluster, name: str) -> Pod:
    """Wait until a pod is being deleted."""

    async def look() -> Pod | None:
        found = await c.pod(name)
        return found if found.metadata.deletionTimestamp else None

    return await c.eventually(look)


async def nominated(c: Cluster, name: str, node: str = "") -> Pod:
    """Wait until a node is nominated for a pod: any, unless it is named."""

    async def look() -> Pod | None:
        found = await c.pod(name)
        chosen = found.status.nominatedNodeName
        return found if chosen and node in ("", chosen) else None

    return await c.eventually(look)


async def alive(c: Cluster, *names: str) -> bool:
    return not any([(await c.pod(name)).metadata.deletionTimestamp for name in names])


async def two(c: Cluster) -> None:
    """A template for both devices of a node, and one for a single device."""
    await c.create(ResourceClaimTemplate, template("pair", request(count=2)), template("one"))


async def test_a_victim_is_told_why_and_leaves_with_its_own_grace_period() -> None:
    async with crowded() as c:
        await c.create(Pod, of("low", "victim", terminationGracePeriodSeconds=7, **needs("40")))
        await run_slowly(c, "victim")
        await c.create(Pod, of("high", "p", **needs("40")))
        victim = await leaves(c, "victim")
        found = next(one for one in victim.status.conditions if one.type == "DisruptionTarget")
        assert (found.status, found.reason) == ("True", "PreemptionByScheduler")
        assert found.message == wording.preempted_for("default-scheduler")
        assert victim.metadata.deletionGracePeriodSeconds == 7
        waiting = await nominated(c, "p")
        assert await c.told("victim", "Preempted") == wording.preempted_by(waiting.metadata.uid, "node-0")
        events = (await c.client.list(Event, "default")).items
        assert next(one.action for one in events if one.reason == "Preempted") == "Preempting"
        assert not waiting.spec.nodeName
        await let_go(c, "victim")
        assert await placed(c, "p") == "node-0"
        assert (await c.pod("p")).status.nominatedNodeName == ""


async def test_pods_of_the_same_priority_and_those_that_do_not_help_stay() -> None:
    async with crowded(nodes=2) as c:
        await c.create(Pod, of("high", "equal", **needs("40"), **on_node("node-0")))
        await c.create(Pod, of("low", "small", **needs("1"), **on_node("node-1")))
        await c.runs("equal", "small")
        await c.create(Pod, of("high", "p", **needs("60"), **on_node("node-0")))
        counts = {PreemptionCode.NOT_HELPFUL: 1, PreemptionCode.NO_VICTIMS: 1}
        await c.waits("p", wording.no_preemption(NoPreemption(PreemptionCode.UNAVAILABLE, 2, counts)))
        assert await alive(c, "equal", "small")


async def test_a_pod_that_preempts_nobody_says_so() -> None:
    async with crowded() as c:
        await c.create(PriorityClass, priority_class("polite", 2000, preemptionPolicy="Never"))
        await c.create(Pod, of("low", "small", **needs("40")))
        await c.runs("small")
        await c.create(Pod, of("polite", "p", **needs("40")))
        await c.waits("p", wording.no_preemption(NoPreemption(PreemptionCode.NEVER)))
        assert await alive(c, "small")


async def test_all_pods_with_devices_leave_a_node_for_one_that_needs_all_devices() -> None:
    async with crowded(devices=2) as c:
        await two(c)
        await c.create(Pod, *(of("low", f"small-{n}", templates=["one"]) for n in range(2)))
        await c.runs("small-0", "small-1")
        await c.create(Pod, of("high", "large", templates=["pair"]))
        await c.runs("large")
        await c.gone(Pod, "small-0")
        await c.gone(Pod, "small-1")


async def test_only_so_many_pods_leave_as_devices_are_needed() -> None:
    async with crowded(nodes=2, devices=2) as c:
        await two(c)
        await c.create(Pod, of("mid", "older", templates=["one"]), of("mid", "other", templates=["one"]))
        await c.runs("older", "other")
        await c.create(Pod, *(of("low", f"small-{n}", templates=["one"]) for n in range(2)))
        await c.runs("small-0", "small-1")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.runs("p")
        left = [one.metadata.name for one in (await c.client.list(Pod, "default")).items]
        assert len([name for name in left if name.startswith("small")]) == 1
        assert {"older", "other", "p"} < set(left)


async def test_a_shared_claim_is_free_when_all_of_its_pods_have_left() -> None:
    async with crowded(devices=1) as c:
        await two(c)
        await c.create(ResourceClaim, claim("shared"))
        await c.create(Pod, of("low", "x", claims=["shared"]), of("mid", "y", claims=["shared"]))
        await c.runs("x", "y")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.runs("p")
        await c.gone(Pod, "x")
        await c.gone(Pod, "y")


async def test_a_claim_that_a_more_important_pod_shares_frees_nothing() -> None:
    async with crowded(devices=1) as c:
        await two(c)
        await c.create(ResourceClaim, claim("shared"))
        await c.create(Pod, of("low", "x", claims=["shared"]), of("high", "y", claims=["shared"]))
        await c.runs("x", "y")
        await c.create(Pod, of("mid", "p", templates=["one"]))
        await c.waits("p", "preemption")
        assert await alive(c, "x", "y")


async def test_who_asks_for_admin_access_preempts_nobody() -> None:
    async with crowded(devices=1) as c:
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await c.client.patch(Namespace, "default", label)
        await c.create(ResourceClaim, claim("monitor", request(adminAccess=True, allocationMode="All")))
        await c.create(Pod, of("low", "small", **needs("40")))
        await c.runs("small")
        await c.create(Pod, of("high", "p", claims=["monitor"], needs={"requests": {"cpu": "40"}}))
        await c.waits("p", wording.no_preemption(NoPreemption(PreemptionCode.ADMIN_ACCESS)))
        assert await alive(c, "small")


async def test_the_freed_devices_are_kept_from_pods_of_lower_priority() -> None:
    async with crowded(devices=2) as c:
        await two(c)
        await c.create(Pod, of("low", "quick", templates=["one"]), of("low", "slow", templates=["one"]))
        await run_slowly(c, "quick", "slow")
        await c.create(Pod, of("high", "large", templates=["pair"]))
        await leaves(c, "quick")
        await let_go(c, "quick")  # its device is free, and large needs two
        await nominated(c, "large")
        await c.create(Pod, of("mid", "thief", templates=["one"]))
        await c.waits("thief", refused(NodeCode.CANNOT_ALLOCATE))
        await unplaced(c, "thief")
        await let_go(c, "slow")
        await placed(c, "large")
        await unplaced(c, "thief")


async def test_a_place_is_given_up_for_another_one_that_is_free_sooner() -> None:
    async with crowded(devices=0) as c:
        await c.create(Pod, of("low", "slow", **needs("40")))
        await run_slowly(c, "slow")
        await c.create(Pod, of("high", "p", **needs("40")))
        await nominated(c, "p")
        await add_node(c.client, 7)
        assert await placed(c, "p") == "node-7"
        await c.create(Pod, of("mid", "q", **needs("40")))
        await c.waits("q")
        await let_go(c, "slow")
        assert await placed(c, "q") == "node-0"


async def test_a_more_important_preemptor_takes_over_a_place() -> None:
    async with crowded(devices=1) as c:
        await two(c)
        await c.create(Pod, of("low", "slow", templates=["one"]))
        await run_slowly(c, "slow")
        await c.create(Pod, of("mid", "second", templates=["one"]))
        await nominated(c, "second")
        await c.create(Pod, of("high", "first", templates=["one"]))
        await nominated(c, "first")

        async def second_lost_it() -> bool:
            return not (await c.pod("second")).status.nominatedNodeName

        await c.eventually(second_lost_it)
        await let_go(c, "slow")
        await placed(c, "first")
        await unplaced(c, "second")


async def test_nobody_else_leaves_while_the_victims_do() -> None:
    async with crowded(nodes=2, devices=1) as c:
        await two(c)
        for number in range(2):
            where = on_node(f"node-{number}")
            await c.create(Pod, of("low", f"slow-{number}", templates=["one"], **where))
        await run_slowly(c, "slow-0", "slow-1")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.waits("p")

        async def one_leaves() -> bool:
            return [await alive(c, f"slow-{number}") for number in range(2)].count(False) == 1

        await c.eventually(one_leaves)
        for number in range(3):  # what happens meanwhile lets the pod be tried again
            await add_node(c.client, 10 + number, unschedulable=True)
            await c.quiet(0.1)
            assert await one_leaves()
        await let_go(c, "slow-0", "slow-1")
        await placed(c, "p")


async def test_a_restarted_scheduler_goes_on_with_a_preemption() -> None:
    async with crowded(nodes=2, devices=2) as c:
        await two(c)
        for number in range(2):
            where = on_node(f"node-{number}")
            await c.create(Pod, *(of("low", f"s{number}{n}", templates=["one"], **where) for n in range(2)))
        await run_slowly(c, "s00", "s01", "s10", "s11")
        await c.create(Pod, of("high", "large", templates=["pair"]))
        node = (await nominated(c, "large", "")).status.nominatedNodeName.removeprefix("node-")
        await leaves(c, f"s{node}0")
        await leaves(c, f"s{node}1")
        await let_go(c, f"s{node}0")
        await c.stop(SCHEDULER)
        await c.create(Pod, of("mid", "thief", templates=["one"], **on_node(f"node-{node}")))
        await c.start(SCHEDULER)
        await c.waits("thief")
        other = 1 - int(node)
        assert await alive(c, f"s{other}0", f"s{other}1")
        await unplaced(c, "thief")
        await let_go(c, f"s{node}1")
        assert await placed(c, "large") == f"node-{node}"
        assert await alive(c, f"s{other}0", f"s{other}1")


async def test_a_restarted_scheduler_keeps_devices_that_are_released_later() -> None:
    """The first victim is gone, but its claim still has the device when the scheduler starts again."""
    async with crowded() as c:
        await two(c)
        await c.create(Pod, *(of("low", f"s{n}", templates=["one"]) for n in range(2)))
        await run_slowly(c, "s0", "s1")
        await c.create(ResourceClaim, claim("free"))
        await c.create(Pod, of("high", "large", templates=["pair"]))
        await nominated(c, "large")
        await leaves(c, "s0")
        await leaves(c, "s1")
        await c.stop(SCHEDULER, CONTROLLERS)
        await let_go(c, "s0")
        await c.create(Pod, of("mid", "thief", claims=["free"]))
        await c.start(SCHEDULER)
        await c.waits("thief")
        await c.start(CONTROLLERS)

        async def released() -> bool:
            return sum(one.status.allocation is not None for one in await c.claims()) == 1

        await c.eventually(released)
        await unplaced(c, "thief")
        await let_go(c, "s1")
        assert await placed(c, "large") == "node-0"
        await unplaced(c, "thief")


@pytest.mark.parametrize("fails", ["condition", "deletion", "nomination"])
async def test_a_call_that_fails_is_made_up_for(fails: str) -> None:
    failures = 0

    async def fail(write: Write) -> None:
        nonlocal failures
        is_it = {
            "condition": "conditions" in write.changes and write.name == "victim",
            "deletion": write.verb == "delete" and write.type is Pod,
            "nomination": bool(write.changes.get("nominatedNodeName")),
        }[fails]
        if is_it and not failures:
            failures += 1
            raise InternalError("try again")

    async with crowded() as c:
        await c.create(Pod, of("low", "victim", **needs("40")))
        await c.runs("victim")
        await c.stop(SCHEDULER)
        c.hooks[SCHEDULER] = fail
        await c.start(SCHEDULER)
        await c.create(Pod, of("high", "p", **needs("40")))
        await c.runs("p")
        assert failures == 1


async def test_others_are_placed_while_victims_are_being_deleted() -> None:
    async with crowded(nodes=2) as c:
        await c.create(Pod, of("low", "victim", **needs("40"), **on_node("node-0")))
        await c.runs("victim")
        await c.stop(SCHEDULER)
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.verb == "delete" and write.type is Pod)
        await c.start(SCHEDULER)
        await c.create(Pod, of("high", "p", **needs("40"), **on_node("node-0")))
        await hold.reached()
        await c.create(Pod, of("low", "other", **needs("1"), **on_node("node-1")))
        await c.runs("other")
        assert await alive(c, "victim")
        hold.go()
        await c.runs("p")


async def test_a_budget_protects_pods_where_others_can_go() -> None:
    async with crowded(nodes=2, devices=1) as c:
        await two(c)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "precious"}}}
        meta = {"name": "precious", "namespace": "default"}
        version = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        await c.create(PodDisruptionBudget, {**version, "metadata": meta, "spec": spec})
        await c.create(Pod, of("low", "guarded", templates=["one"], labels={"app": "precious"}))
        await c.create(Pod, of("mid", "free", templates=["one"]))
        await c.runs("guarded", "free")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.runs("p")
        await c.gone(Pod, "free")
        assert await alive(c, "guarded")


async def test_a_group_that_is_disrupted_as_a_whole_leaves_as_a_whole() -> None:
    gates = "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
    async with crowded(nodes=2, devices=1, gates=gates) as c:
        await two(c)
        group: Tree = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {
                "priorityClassName": "low",
                "schedulingPolicy": {"basic": {}},
                "disruptionMode": {"all": {}},
            },
        }
        await c.create(PodGroup, group)
        member = {"schedulingGroup": {"podGroupName": "g"}, "templates": ["one"]}
        await c.create(Pod, of("low", "a", **member), of("low", "b", **member))
        await c.runs("a", "b")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.runs("p")
        await c.gone(Pod, "a")
        await c.gone(Pod, "b")
        found = await c.client.get(PodGroup, "g", "default")
        assert "PreemptionByScheduler" in [one.reason for one in found.status.conditions]


async def test_a_nominated_node_that_is_gone_is_forgotten() -> None:
    async with crowded(devices=0) as c:
        await c.create(Pod, of("low", "slow", **needs("40")))
        await run_slowly(c, "slow")
        await c.create(Pod, of("high", "p", **needs("40")))
        await nominated(c, "p")
        await c.delete(Node, "node-0")
        await add_node(c.client, 7)
        assert await placed(c, "p") == "node-7"


async def test_the_claim_of_a_group_is_free_when_all_of_its_pods_were_preempted() -> None:
    gates = "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
    async with crowded(devices=1, gates=gates) as c:
        await two(c)
        entry = {"name": "shared", "resourceClaimTemplateName": "one"}
        group: Tree = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"priorityClassName": "low", "schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]},
        }
        await c.create(PodGroup, group)
        member = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": [entry]}
        await c.create(Pod, of("low", "a", **member), of("low", "b", **member))
        await c.runs("a", "b")
        await c.create(Pod, of("high", "p", templates=["one"]))
        await c.runs("p")
        await c.gone(Pod, "a")
        await c.gone(Pod, "b")


async def test_a_critical_pod_preempts_and_is_preempted_by_nobody_less_critical() -> None:
    async with crowded(devices=0) as c:
        await c.create(Pod, of("high", "usual", **needs("40")))
        await c.runs("usual")
        await c.create(Pod, of("system-cluster-critical", "critical", **needs("40")))
        await c.runs("critical")
        await c.gone(Pod, "usual")
        await c.create(Pod, of("high", "again", **needs("40")))
        await c.waits("again", "preemption")
        assert await alive(c, "critical")


@pytest.mark.parametrize("is_gang", [False, True])
async def test_pods_that_are_just_being_bound_are_victims_as_soon_as_they_are(is_gang: bool) -> None:
    async with crowded(devices=0, gates="GenericWorkload=true") as c:
        await c.stop(SCHEDULER)
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.binds)
        await c.start(SCHEDULER)
        await c.create(Pod, of("low", "victim", **needs("40")))
        await hold.reached()
        more: Tree = {}
        if is_gang:
            more = {"schedulingGroup": {"podGroupName": "g"}}
            policy = {"schedulingPolicy": {"gang": {"minCount": 1}}, "priorityClassName": "high"}
            await c.create(PodGroup, {"metadata": {"name": "g", "namespace": "default"}, "spec": policy})
        await c.create(Pod, of("high", "p", **needs("40"), **more))
        await c.waits("p", "preemption")
        hold.go()
        await c.runs("p")
        await c.gone(Pod, "victim")


async def test_devices_that_a_decision_sets_free_help_others_without_further_events() -> None:
    """A nomination that is given up while its pod's status says nothing of it changes no object."""
    async with crowded(devices=1) as c:
        await two(c)
        await c.stop(NODES)
        core = c.scheduler.core
        core.state.devices.ledger.promise("nominated x", Taken((DeviceId(DRIVER, "node-0", "gpu-0"),)))
        await c.create(Pod, of("mid", "p", templates=["one"]))
        await c.waits("p")
        await c.quiet(0.1)
        core.state.devices.ledger.forget("nominated x")
        core.wake(ROOM_AND_DEVICES)
        assert await placed(c, "p") == "node-0"
