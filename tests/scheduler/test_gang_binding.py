"""Plans of gangs on a real server: whatever write is the last of a scheduler, nothing stays reserved without reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import ServiceUnavailable
from dray.api.reasons.groups import GroupCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Client
from dray.client.config import Config
from dray.client.http import Http
from tests.client.conftest import listening
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import Hook, Write, interposed, meanwhile
from tests.e2e.objects import claim, pod
from tests.saying import words_of

GATES = "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
SIZE = 3
WAYS = ("in-process", "http")


@asynccontextmanager
async def gangs(way: str = "in-process", hook: Hook | None = None, devices: int = 4) -> AsyncIterator[Cluster]:
    """A node with devices, and a scheduler that reaches the server in some way and asks the hook before each write."""
    async with AsyncExitStack() as stack:
        c = await stack.enter_async_context(
            cluster(nodes=1, devices=devices, gates=GATES, parts=(NODES, CONTROLLERS), authenticate=False)
        )
        if way == "http":
            address = await stack.enter_async_context(listening(c.running))
            far = await stack.enter_async_context(Http(Config(address)))

            near = c.client_of

            def client_of(name: str) -> Client:
                if name != SCHEDULER:
                    return near(name)
                return interposed(far, c.hooks[name]) if name in c.hooks else far

            c.client_of = client_of  # type: ignore[method-assign]
        if hook is not None:
            c.hooks[SCHEDULER] = hook
        yield c
        await c.stop()  # before the client is closed


async def add_gang(c: Cluster, name: str = "g", least: int = SIZE) -> None:
    """A gang whose pods have a claim each, and one of their group."""
    entry = {"name": "shared", "resourceClaimName": f"{name}-shared"}
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "resourceClaims": [entry]}
    await c.create(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await c.create(ResourceClaim, claim(f"{name}-shared"), *(claim(f"{name}-{i}") for i in range(SIZE)))
    await c.create(Pod, *(member(f"{name}-{i}", name) for i in range(SIZE)))


def member(name: str, of: str) -> dict[str, Any]:
    entries = [{"name": "own", "resourceClaimName": name}, {"name": "shared", "resourceClaimName": f"{of}-shared"}]
    return pod(name, resourceClaims=entries, schedulingGroup={"podGroupName": of})


async def bound(c: Cluster, of: str = "g") -> list[str]:
    pods = (await c.client.list(Pod, "default")).items
    return [one.metadata.name for one in pods if one.spec.nodeName and one.metadata.name.startswith(of)]


async def held(c: Cluster) -> list[str]:
    """The claims that have devices or list somebody."""
    return [one.metadata.name for one in await c.claims() if one.status.allocation or one.status.reservedFor]


class Killed:
    """Lets so many writes of a gang pass; then nothing reaches the server any more, as if the scheduler were dead."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.is_dead = False

    async def __call__(self, write: Write) -> None:
        if self.is_dead or (write.type in (ResourceClaim, Pod) and self._is_last(write)):
            self.is_dead = True
            raise ServiceUnavailable("the scheduler is dead")

    def _is_last(self, write: Write) -> bool:
        if write.type is Pod and not write.binds:
            return False  # what pods are told
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("writes", range(2 * (SIZE + 1) + SIZE))
async def test_after_any_write_a_gang_is_completed_or_released(way: str, writes: int) -> None:
    killed = Killed(writes)
    async with gangs(way, killed) as c:
        await add_gang(c)
        await c.start(SCHEDULER)

        async def dead() -> bool:
            return killed.is_dead

        await c.eventually(dead)
        await c.stop(SCHEDULER)
        del c.hooks[SCHEDULER]
        was_bound = bool(await bound(c))
        if not was_bound:
            await c.delete(Pod, "g-0")  # the gang will never be complete
        await c.start(SCHEDULER)

        async def settled() -> bool:
            return len(await bound(c)) == SIZE if was_bound else not await held(c)

        await c.eventually(settled)
        if not was_bound:
            assert await bound(c) == []
            await c.create(Pod, member("g-0", "g"))
            await c.runs(*(f"g-{i}" for i in range(SIZE)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("writes", [1, 4, 8])
async def test_a_failure_before_a_pod_is_bound_releases_the_plan(way: str, writes: int) -> None:
    """The server refuses one write; the next attempt succeeds."""
    seen = 0

    async def refuse_one(write: Write) -> None:
        nonlocal seen
        if write.type is ResourceClaim or write.binds:
            seen += 1
            if seen == writes + 1:
                raise ServiceUnavailable("not now")

    async with gangs(way, refuse_one) as c:
        await add_gang(c)
        await c.start(SCHEDULER)
        await c.runs(*(f"g-{i}" for i in range(SIZE)))
        assert seen > writes


@pytest.mark.parametrize("what", ["a pod goes", "the node goes", "minCount grows", "the group goes"])
async def test_what_changes_before_the_first_pod_is_bound_releases_the_plan(what: str) -> None:
    async with gangs() as c:
        await add_gang(c)

        async def change() -> None:
            match what:
                case "a pod goes":
                    await c.delete(Pod, "g-1")
                case "the node goes":
                    await c.stop(NODES)
                    await c.delete(Node, "node-0", "")
                case "minCount grows":
                    larger = {"spec": {"schedulingPolicy": {"gang": {"minCount": SIZE + 1}}}}
                    await c.client.patch(PodGroup, "g", larger, "default")
                case _:
                    await c.delete(PodGroup, "g")
                    strip = {"metadata": {"finalizers": None}}
                    await c.client.patch(PodGroup, "g", strip, "default")

        allocations = 0

        def is_last_claim(write: Write) -> bool:
            nonlocal allocations
            allocations += write.allocates
            return allocations == SIZE + 1

        c.hooks[SCHEDULER] = meanwhile(is_last_claim, change)
        await c.start(SCHEDULER)

        async def tried() -> bool:
            return allocations > SIZE

        async def released() -> bool:
            return not await held(c)

        await c.eventually(tried)
        await c.eventually(released)
        assert await bound(c) == []


async def test_two_gangs_that_compete_run_one_after_the_other() -> None:
    async with gangs() as c:
        await c.start(SCHEDULER)
        await add_gang(c, "a")
        await c.runs(*(f"a-{i}" for i in range(SIZE)))
        await add_gang(c, "b")
        await c.waits("b-0", words_of(GroupCode.MIN_COUNT_UNREACHED).partition("(")[0])
        assert await bound(c, "b") == []
        for i in range(SIZE):
            await c.delete(Pod, f"a-{i}")
        group = await c.client.get(PodGroup, "a", "default")
        await c.delete(PodGroup, group.metadata.name)  # until then, its claim is reserved for it
        await c.runs(*(f"b-{i}" for i in range(SIZE)))


async def test_the_condition_of_a_group_says_how_it_fares() -> None:
    async def condition(status: str) -> tuple[str, str]:
        async def look() -> tuple[str, str] | None:
            group = await c.client.get(PodGroup, "g", "default")
            told = [one for one in group.status.conditions if one.status == status]
            assert all(one.type == "PodGroupInitiallyScheduled" for one in told)
            return (told[0].reason, told[0].message) if told else None

        found = await c.eventually(look)
        assert found is not None
        return found

    async with gangs(devices=3) as c:
        await add_gang(c)
        await c.start(SCHEDULER)
        reason, message = await condition("False")
        assert (reason, message.partition(".")[0]) == (
            "Unschedulable",
            "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
        )
        smaller = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        await c.client.patch(PodGroup, "g", smaller, "default")
        assert (await condition("True"))[0] == "Scheduled"
        assert len(await bound(c)) == 2


async def test_pods_that_differ_are_a_scheduler_error() -> None:
    async with gangs() as c:
        await add_gang(c, least=SIZE + 1)
        odd = member("odd", "g") | {}
        odd["spec"]["priorityClassName"] = "system-node-critical"
        odd["spec"]["resourceClaims"] = []
        await c.create(Pod, odd)
        await c.start(SCHEDULER)
        assert words_of(GroupCode.PRIORITIES) in await c.waits("g-0")

        async def told() -> bool:
            group = await c.client.get(PodGroup, "g", "default")
            return any(one.reason == "SchedulerError" for one in group.status.conditions)

        await c.eventually(told)
        assert await held(c) == []
