"""Each role of the chart grants what its part uses, all of it and nothing else: less fails here, and so does more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import Conflict, InternalError
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.api.users import AUTHENTICATED, NODE_NAME, User
from dray.assembly.simulated_nodes import SimulationOptions, StandaloneSimulation
from dray.client import InProcess, LeaderElection, LeaseSettings
from dray.client.cluster_gates import discover
from dray.client.readiness import Readiness
from dray.sim.hardware import CLASS
from tests.cli.test_user_rights import NEEDED, WORKLOADS
from tests.deploy.roles import Asked, Permission, granted, role, watch_requests
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import Write
from tests.e2e.objects import claim, pod
from tests.permissions import allow
from tests.releases import RELEASES, serving
from tests.scheduler.test_shadow import compared, shadowing
from tests.waiting import eventually

DRAY = User("dray", groups=(AUTHENTICATED,))
IN_A_POD = User("system:serviceaccount:dray-system:dray", groups=(AUTHENTICATED,), extra={NODE_NAME: ("some-node",)})
GATES = "GenericWorkload=true"


def cpu(quantity: str, **more: str) -> dict[str, object]:
    resources = {"requests": {"cpu": quantity}, "limits": more}
    return {"containers": [{"name": "main", "image": "app", "resources": resources}]}


class Trouble:
    """Lets the first allocation meet a conflict, and the first binding of the pod `ext` fail."""

    def __init__(self) -> None:
        self._pending = [
            (lambda write: write.allocates, Conflict("somebody was faster")),
            (lambda write: write.binds and write.name == "ext", InternalError("no")),
        ]

    async def __call__(self, write: Write) -> None:
        for entry in self._pending:
            about, error = entry
            if about(write):
                self._pending.remove(entry)
                raise error


async def everything(c: Cluster) -> None:
    """Let the scheduler do each thing that it can do."""
    await c.client.patch(DeviceClass, CLASS, {"spec": {"extendedResourceName": "example.com/gpu"}})
    await c.create(ResourceClaim, claim("c"))
    await c.create(Pod, pod("with-devices", claims=["c"]))
    await c.create(Pod, pod("ext", **cpu("1", **{"example.com/gpu": "1"})))
    await c.runs("with-devices", "ext")
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    await c.create(PodGroup, {"metadata": {"name": "g", "namespace": "default"}, "spec": policy})
    await c.create(Pod, pod("member", schedulingGroup={"podGroupName": "g"}))
    await c.runs("member")
    await c.create(Pod, pod("large", **cpu("1000")))
    for unschedulable, text in ((False, "Insufficient cpu"), (True, "unschedulable"), (False, "Insufficient cpu")):
        await c.client.patch(Node, "node-0", {"spec": {"unschedulable": unschedulable}})
        await c.waits("large", text)
    await c.create(PriorityClass, {"metadata": {"name": "high"}, "value": 10})
    await c.create(Pod, pod("low", **cpu("40")))
    await c.runs("low")
    await c.create(Pod, pod("high", priorityClassName="high", **cpu("40")))
    await c.runs("high")


def difference(found: Iterable[Permission], rules: Iterable[Permission]) -> dict[str, list[str]]:
    used, given = set(found), set(rules)
    return {"never used": sorted(map(str, given - used)), "not granted": sorted(map(str, used - given))}


NOTHING: dict[str, list[str]] = {"never used": [], "not granted": []}


async def unless_refused(work: Coroutine[Any, Any, None], asked: Asked) -> None:
    """Wait for something that takes a minute to fail, but no longer once a request was refused."""
    task = asyncio.create_task(work)
    while not task.done() and not asked.refused:
        await asyncio.wait([task], timeout=0.05)
    if asked.refused:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    else:
        task.result()


async def test_the_scheduler_uses_its_role_all_of_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch_requests(monkeypatch, DRAY.name)
    async with cluster(nodes=1, devices=4, gates=GATES, parts=(NODES, CONTROLLERS)) as c:
        await allow(c.client, DRAY.name, *role("scheduler"))
        c.users[SCHEDULER] = DRAY
        c.hooks[SCHEDULER] = Trouble()
        await unless_refused(c.start(SCHEDULER), asked)
        await unless_refused(everything(c), asked)
        c.audit.findings.clear()  # what went wrong on purpose
    assert difference(asked.allowed | asked.refused, granted(role("scheduler"))) == NOTHING


async def test_leader_election_uses_its_role_all_of_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = watch_requests(monkeypatch, DRAY.name)
    rules = [{**rule, **({"resourceNames": ["l"]} if "resourceNames" in rule else {})} for rule in role("lease")]
    async with cluster(parts=()) as c:
        await allow(c.client, DRAY.name, *rules)
        election = LeaderElection(InProcess(c.running.api, DRAY), LeaseSettings("l", "default"), "me")
        await asyncio.wait_for(election.acquire(), 10)
        await election.release()
    assert asked.refused == set()
    assert difference(asked.allowed, granted(rules)) == NOTHING


async def test_the_shadow_uses_its_role_all_of_it_which_has_no_verb_that_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = watch_requests(monkeypatch, "shadow")
    async with cluster(nodes=1, gates=GATES, parts=(NODES, SCHEDULER)) as c, shadowing(c) as shadow:
        await c.create(Pod, pod("p"))
        await compared(shadow, 1)
    assert asked.refused == set()
    assert difference(asked.allowed, granted(role("shadow"))) == NOTHING
    assert {permission.verb for permission in granted(role("shadow"))} == {"list", "watch"}


async def test_simulated_nodes_use_their_role_all_of_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.sim.nodes.LEASE_SECONDS", 0.25)  # between two renewals
    asked = watch_requests(monkeypatch, IN_A_POD.name)
    async with cluster(parts=(SCHEDULER, CONTROLLERS)) as c:
        await allow(c.client, IN_A_POD.name, *role("simulated-nodes"))
        simulation = StandaloneSimulation(SimulationOptions(simulated=1, untainted=True))
        readiness = Readiness()
        client: Any = InProcess(c.running.api, IN_A_POD)
        task = asyncio.create_task(simulation.run(client, c.gates, readiness))
        await unless_refused(play(c, asked), asked)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        c.audit.findings.clear()
    assert difference(asked.allowed | asked.refused, granted(role("simulated-nodes"))) == NOTHING


async def play(c: Cluster, asked: Asked) -> None:
    """Let simulated nodes do each thing that they can do."""
    await c.create(ResourceClaim, claim("c"))
    await c.create(Pod, pod("p", claims=["c"]))
    await c.runs("p")
    await c.delete(Pod, "p")
    await c.gone(Pod, "p")
    await c.create(Pod, pod("early", claims=["missing"], nodeName="simulated-0"))
    await c.told("early", "FailedPrepareDynamicResources")
    dead = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await c.client.patch(Node, "simulated-0", dead, subresource="status")
    await eventually(lambda: Permission("patch", "nodes/status") in asked.allowed)


@pytest.mark.parametrize("name", ["scheduler", "shadow", "simulated-nodes"])
async def test_a_role_lets_its_part_read_the_feature_gates_of_the_cluster(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unusual = replace(RELEASES[37], on=RELEASES[37].on - {"DRAConsumableCapacity"})
    async with serving(unusual, monkeypatch, tmp_path) as server, server.client("nodes") as client:
        await allow(server.admin, "nodes", *role(name))
        found = await discover(client, FeatureGates())
    assert "DRAConsumableCapacity=false" in found.differences


def test_the_role_of_readers_is_what_the_tools_need_and_nothing_else() -> None:
    needed = {
        (name, group) for groups in (*NEEDED.values(), WORKLOADS) for group, names in groups.items() for name in names
    }
    wanted = {Permission(verb, name, group) for name, group in needed for verb in ("list", "watch")}
    assert difference(wanted, granted(role("reader"))) == NOTHING
