"""Nodes whose leases are not renewed: Unknown, tainted, their pods not ready and then evicted; and nodes that come back."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import NotFound
from dray.api.times import micro_timestamp, timestamp
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.client import Client
from dray.client.clock import ManualClock
from dray.controllers.node_eviction import NodeEviction
from dray.controllers.node_health import NodeHealth
from tests import objects
from tests.controllers.conftest import Start
from tests.waiting import eventually

LEASES = "kube-node-lease"


async def run_node(client: Client, name: str, clock: ManualClock, lease: int | None = 40) -> None:
    await client.create(Node, objects.node(name))
    now = timestamp(clock.time())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "reason": "KubeletReady"}
    ready |= {"lastHeartbeatTime": now}
    await client.patch(Node, name, {"status": {"conditions": [ready]}}, subresource="status")
    if lease is not None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": lease, "renewTime": micro_timestamp(clock.time())}
        await client.create(Lease, {"metadata": {"name": name}, "spec": spec}, namespace=LEASES)


async def renew(client: Client, name: str, clock: ManualClock) -> None:
    await client.patch(Lease, name, {"spec": {"renewTime": micro_timestamp(clock.time())}}, LEASES)


async def run_pod(client: Client, name: str, where: str, **spec: Any) -> None:
    await client.create(Pod, objects.pod(name, node=where, **spec), namespace="default")
    ready = {"type": "Ready", "status": "True"}
    await client.patch(
        Pod, name, {"status": {"phase": "Running", "conditions": [ready]}}, "default", subresource="status"
    )


async def ready(client: Client, name: str) -> str:
    return next(c.status for c in (await client.get(Node, name)).status.conditions if c.type == "Ready")


async def taints(client: Client, name: str) -> set[tuple[str, str]]:
    return {(taint.key, taint.effect) for taint in (await client.get(Node, name)).spec.taints}


async def pass_time(clock: ManualClock, client: Client, seconds: int, *living: str) -> None:
    """Let time pass in the steps in which leases are renewed."""
    for _ in range(0, seconds, 5):
        for name in living:
            await renew(client, name, clock)
        await clock.advance(5)


async def test_a_silent_node_is_unknown_tainted_and_its_pods_are_not_ready(client: Client, start: Start) -> None:
    clock = ManualClock()
    begun = timestamp(clock.time())
    for name in ("silent", "living"):
        await run_node(client, name, clock)
    await run_pod(client, "p", "silent")
    async with start(NodeHealth, clock=clock):
        await pass_time(clock, client, 45, "living")
        assert await ready(client, "silent") == "True"
        await pass_time(clock, client, 15, "living")

        async def is_unknown() -> bool:
            return await ready(client, "silent") == "Unknown"

        await eventually(is_unknown)
        beats = {c.type: c.lastHeartbeatTime for c in (await client.get(Node, "silent")).status.conditions}
        assert beats["Ready"] == begun  # the last that was heard of it
        key = "node.kubernetes.io/unreachable"

        async def is_tainted() -> bool:
            return await taints(client, "silent") == {(key, "NoSchedule"), (key, "NoExecute")}

        await eventually(is_tainted)
        conditions = (await client.get(Pod, "p", "default")).status.conditions
        assert [c.status for c in conditions if c.type == "Ready"] == ["False"]
        assert (await ready(client, "living"), await taints(client, "living")) == ("True", set())


async def test_a_node_that_comes_back_loses_the_taints(client: Client, start: Start) -> None:
    clock = ManualClock()
    for name in ("silent", "living"):
        await run_node(client, name, clock)
    async with start(NodeHealth, clock=clock):
        await pass_time(clock, client, 70, "living")

        async def tainted() -> bool:
            return bool(await taints(client, "silent"))

        await eventually(tainted)
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(clock.time())}
        await client.patch(Node, "silent", {"status": {"conditions": [condition]}}, subresource="status")
        await pass_time(clock, client, 10, "living", "silent")

        async def clean() -> bool:
            return not await taints(client, "silent")

        await eventually(clean)


@pytest.mark.parametrize(("lease", "lives"), [(None, True), (400, True), (40, False)])
async def test_a_lease_says_how_long_it_lasts_and_without_one_a_node_is_left_alone(
    client: Client, start: Start, lease: int | None, lives: bool
) -> None:
    clock = ManualClock()
    await run_node(client, "living", clock)
    await run_node(client, "n", clock, lease)
    async with start(NodeHealth, clock=clock):
        await pass_time(clock, client, 120, "living")

        async def judged() -> bool:
            return (await ready(client, "n") == "True") is lives

        await eventually(judged)


async def test_nobody_is_evicted_where_no_node_answers(client: Client, start: Start) -> None:
    clock = ManualClock()
    for name in ("a", "b"):
        await run_node(client, name, clock)
    async with start(NodeHealth, clock=clock):
        await pass_time(clock, client, 70)
        key = "node.kubernetes.io/unreachable"

        async def tainted() -> bool:
            return await taints(client, "a") == {(key, "NoSchedule")} == await taints(client, "b")

        await eventually(tainted)


async def test_pods_leave_a_tainted_node_when_what_they_tolerate_has_passed(client: Client, start: Start) -> None:
    clock = ManualClock()
    await run_node(client, "n", clock)
    toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    await run_pod(client, "intolerant", "n")
    await run_pod(client, "patient", "n", tolerations=[{**toleration, "tolerationSeconds": 30}])
    await run_pod(client, "stays", "n", tolerations=[toleration])
    async with start(NodeEviction, clock=clock):
        taint = {"key": "broken", "effect": "NoExecute", "timeAdded": timestamp(clock.time())}
        await client.patch(Node, "n", {"spec": {"taints": [taint]}})

        async def left(name: str) -> bool:
            try:
                found = await client.get(Pod, name, "default")
            except NotFound:
                return True
            return found.metadata.deletionTimestamp is not None

        await eventually(lambda: left("intolerant"))
        target = (await client.get(Pod, "intolerant", "default")).status.conditions[-1]
        assert (target.type, target.reason) == ("DisruptionTarget", "DeletionByTaintManager")
        assert not await left("patient")
        await clock.advance(31)
        await eventually(lambda: left("patient"))
        assert not await left("stays")
