"""Gangs that change while a plan is written for them, and calls that fail meanwhile: whole or not at all, and nothing held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dray.api.errors import ServiceUnavailable
from dray.api.reasons.groups import GroupCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Tree
from dray.scheduler import gang_recovery
from tests import objects
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, SECOND_SCHEDULER, Cluster, cluster
from tests.e2e.interference import Write, meanwhile
from tests.e2e.objects import claim, device, pod, slice_of
from tests.saying import words_of
from tests.scheduler.test_conditions import FAILED, HASTY, READY, attachable, tell
from tests.scheduler.test_extended_resources import asking, serve
from tests.scheduler.test_gang_binding import GATES, SIZE, Killed, add_gang, bound, gangs, held

MEMBER: Tree = {"schedulingGroup": {"podGroupName": "g"}}


async def add_group(c: Cluster, least: int = 0, **spec: object) -> None:
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    tree = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": policy, **spec}}
    await c.create(PodGroup, tree)


async def add_members(c: Cluster, count: int, *shared: str) -> None:
    for i in range(count):
        await c.create(ResourceClaim, claim(f"g-{i}"))
        await c.create(Pod, pod(f"g-{i}", claims=[*shared, f"g-{i}"], **MEMBER))


@asynccontextmanager
async def two_nodes(least: int = 2) -> AsyncIterator[Cluster]:
    """Nodes with a device each, and a gang of two pods that the scheduler, once it is started, places there."""
    async with cluster(nodes=2, devices=1, gates=GATES, parts=(NODES, CONTROLLERS)) as c:
        await add_group(c, least)
        await add_members(c, 2)
        yield c


def nth_allocation(number: int) -> Callable[[Write], bool]:
    seen = 0

    def is_it(write: Write) -> bool:
        nonlocal seen
        seen += write.allocates
        return write.allocates and seen == number

    return is_it


async def holds(c: Cluster, *names: str) -> None:
    """Wait until these claims and no others have devices or list somebody."""

    async def look() -> bool:
        return await held(c) == [*names]

    await c.eventually(look)


async def are_bound(c: Cluster, count: int) -> None:
    async def look() -> bool:
        return len(await bound(c)) == count

    await c.eventually(look)


async def test_what_could_not_be_released_is_released_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server fails in the middle of a plan, and the gang needs more pods now, so that no attempt follows."""
    monkeypatch.setattr(gang_recovery, "PLAN_SECONDS", 0.0)
    is_last, state = nth_allocation(SIZE + 1), {"down": False}
    refused = asyncio.Event()

    async def fail(write: Write) -> None:
        if is_last(write):
            state["down"] = True
            await grows(c)
        if state["down"] and write.type is ResourceClaim:
            if write.deallocates:
                refused.set()
            raise ServiceUnavailable("down")

    async with gangs(hook=fail) as c:
        await add_gang(c)
        await c.start(SCHEDULER)
        await asyncio.wait_for(refused.wait(), 60)
        assert await held(c)
        state["down"] = False
        await holds(c)


async def test_reservations_of_a_claim_that_others_use_are_taken_back() -> None:
    async with gangs() as c:
        await c.create(ResourceClaim, claim("used"))
        await c.create(Pod, pod("user", claims=["used"]))
        await c.start(SCHEDULER)
        await c.runs("user")
        await c.stop(SCHEDULER)
        await add_group(c, 3)
        await add_members(c, 3, "used")
        c.hooks[SCHEDULER] = meanwhile(nth_allocation(3), lambda: c.delete(Pod, "g-1"))
        await c.start(SCHEDULER)
        await c.gone(Pod, "g-1")
        await holds(c, "used")

        async def lists_its_user() -> bool:
            return [one.name for one in (await c.claim("used")).status.reservedFor] == ["user"]

        await c.eventually(lists_its_user)


async def test_no_pod_is_bound_if_the_first_one_goes_just_before_its_binding() -> None:
    tried: list[str] = []

    async def lose(write: Write) -> None:
        if write.binds:
            tried.append(write.name)
            await c.delete(Pod, write.name)

    async with gangs(hook=lose) as c:
        await add_gang(c)
        await c.start(SCHEDULER)

        async def tried_one() -> bool:
            return bool(tried)

        await c.eventually(tried_one)
        await holds(c)
        assert len(tried) == 1
        assert await bound(c) == []


async def test_a_claim_on_a_lost_node_does_not_keep_the_rest_of_a_gang() -> None:
    async with two_nodes() as c:

        async def bind_one(write: Write) -> None:
            if write.binds and await bound(c):
                raise ServiceUnavailable("dead")

        c.hooks[SCHEDULER] = bind_one
        await c.start(SCHEDULER)
        await are_bound(c, 1)
        await c.stop(SCHEDULER, NODES)
        del c.hooks[SCHEDULER]
        node = (await c.pod(*await bound(c))).spec.nodeName
        await c.delete(Node, "node-1" if node == "node-0" else "node-0", "")
        await c.create(Node, objects.node("fresh", allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"}))
        await c.create(ResourceSlice, slice_of("fresh", "fresh", device("gpu")))
        await c.start(SCHEDULER)
        await are_bound(c, 2)


async def test_the_rest_of_a_gang_holds_nothing_once_its_bound_pod_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_recovery, "PLAN_SECONDS", 0.0)
    async with two_nodes() as c:

        async def bind_one(write: Write) -> None:
            if write.binds and await bound(c):
                raise ServiceUnavailable("dead")

        c.hooks[SCHEDULER] = bind_one
        await c.start(SCHEDULER)
        await are_bound(c, 1)
        await c.delete(Pod, *await bound(c))
        await holds(c)


async def test_a_gang_is_placed_for_the_group_that_replaces_its_own() -> None:
    async with gangs() as c:
        await add_gang(c)

        async def replace() -> None:
            await c.client.patch(PodGroup, "g", {"metadata": {"finalizers": None}}, "default")
            await c.delete(PodGroup, "g")
            await add_group(c, SIZE, resourceClaims=[{"name": "shared", "resourceClaimName": "g-shared"}])

        c.hooks[SCHEDULER] = meanwhile(nth_allocation(SIZE + 1), replace)
        await c.start(SCHEDULER)
        await c.runs(*(f"g-{i}" for i in range(SIZE)))
        group = await c.client.get(PodGroup, "g", "default")
        assert [one.uid for one in (await c.claim("g-shared")).status.reservedFor] == [group.metadata.uid]


async def fails(c: Cluster) -> None:
    await tell(c, "g-1", **{FAILED: "True"})


async def loses_a_pod(c: Cluster) -> None:
    await c.delete(Pod, "g-1")


async def grows(c: Cluster) -> None:
    larger = {"spec": {"schedulingPolicy": {"gang": {"minCount": SIZE + 1}}}}
    await c.client.patch(PodGroup, "g", larger, "default")


async def waits(c: Cluster) -> None:
    """Do nothing until the deadline."""


@pytest.mark.parametrize("what", [fails, loses_a_pod, grows, waits])
async def test_the_wait_for_devices_ends_for_the_whole_gang(what: Callable[[Cluster], Awaitable[None]]) -> None:
    async with two_nodes() as c:
        if what is waits:
            c.configurations[SCHEDULER] = HASTY
        await attachable(c, 0, 1)
        await c.start(SCHEDULER)
        await holds(c, "g-0", "g-1")
        await what(c)
        await holds(c)
        assert await bound(c) == []


async def test_a_gang_is_bound_when_the_devices_of_all_its_pods_are_ready() -> None:
    async with two_nodes() as c:
        await attachable(c, 0, 1)
        await c.start(SCHEDULER)
        await holds(c, "g-0", "g-1")
        await tell(c, "g-0", **{READY: "True"})
        await c.quiet(0.1)
        assert await bound(c) == []
        await tell(c, "g-1", **{READY: "True"})
        await are_bound(c, 2)


class KilledWithExtendedResources(Killed):
    def _is_last(self, write: Write) -> bool:
        if write.type is Pod and not write.binds and "extendedResourceClaimStatus" not in write.changes:
            return False
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("writes", range(5 * SIZE))
async def test_after_any_write_a_gang_with_extended_resources_is_completed_or_released(writes: int) -> None:
    """For each pod, the claim is created, protected and allocated, then the pod names it and is bound."""
    killed = KilledWithExtendedResources(writes)
    async with gangs(hook=killed) as c:
        await serve(c)
        await add_group(c, SIZE)
        await c.create(Pod, *(asking(f"g-{i}", **MEMBER) for i in range(SIZE)))
        await c.start(SCHEDULER)

        async def dead() -> bool:
            return killed.is_dead

        await c.eventually(dead)
        await c.stop(SCHEDULER)
        del c.hooks[SCHEDULER]
        if not (was_bound := bool(await bound(c))):
            await c.delete(Pod, "g-0")  # the gang is not complete
        await c.start(SCHEDULER)
        if not was_bound:
            await holds(c)
            await c.create(Pod, asking("g-0", **MEMBER))
        await are_bound(c, SIZE)
        assert len(await c.claims()) == SIZE


async def test_two_schedulers_do_not_release_each_other_s_plans() -> None:
    async with gangs() as c:
        await add_gang(c)
        await asyncio.gather(c.start(SCHEDULER), c.start(SECOND_SCHEDULER))
        await c.runs(*(f"g-{i}" for i in range(SIZE)))


async def is_told(c: Cluster, code: GroupCode) -> None:
    """Wait until a pod and its group are told what is wrong."""
    await c.waits("g-0", words_of(code).partition("got")[0])

    async def told() -> bool:
        return [one.reason for one in (await c.client.get(PodGroup, "g", "default")).status.conditions] == [
            "SchedulerError"
        ]

    await c.eventually(told)


async def test_a_gang_that_waits_for_pods_of_another_scheduler_is_told_so() -> None:
    async with gangs() as c:
        await add_group(c, 2)
        await c.create(Pod, pod("g-0", **MEMBER), pod("g-1", schedulerName="another", **MEMBER))
        await c.start(SCHEDULER)
        await is_told(c, GroupCode.SCHEDULER_NAMES)


async def test_a_pod_of_another_priority_than_its_group_is_not_placed_by_itself_either() -> None:
    """Otherwise it could preempt pods that may preempt it, since it is protected by the priority of its group alone."""
    async with gangs() as c:
        await add_group(c)
        await c.create(Pod, pod("g-0", priorityClassName="system-node-critical", **MEMBER))
        await c.start(SCHEDULER)
        await is_told(c, GroupCode.PRIORITIES)
        assert await bound(c) == []
