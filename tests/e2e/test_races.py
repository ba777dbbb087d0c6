"""The races of KEP-4381, "State and communication" and "Unreserve", walked step by step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Forbidden
from dray.api.podclaims import CLAIM_FINALIZER
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.wording import say
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.core.configuration import Configuration, SchedulerProfile
from tests.e2e.audit import devices_of
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, SECOND_SCHEDULER, Cluster, cluster
from tests.e2e.interference import Hold, Write, in_turn
from tests.e2e.objects import claim, on_node, pod, request
from tests.saying import beginning, refused, words_of

WITHOUT_SCHEDULER = (NODES, CONTROLLERS)


def allocates(name: str) -> Any:
    return lambda write: write.allocates and write.name == name


def protects(name: str) -> Any:
    return lambda write: write.protects and write.name == name


async def held(cluster: Cluster, about: Any, name: str = SCHEDULER) -> Hold:
    """Start a scheduler that will stop before a write."""
    hold = cluster.hooks[name] = Hold(about)
    await cluster.start(name)
    return hold


def second_profile(cluster: Cluster) -> str:
    """Give the second scheduler pods of its own; the name that they must ask for."""
    cluster.configurations[SECOND_SCHEDULER] = Configuration({"second": SchedulerProfile("second")})
    return "second"


# A claim that goes while it is being allocated


async def test_a_claim_that_is_deleted_before_the_finalizer_is_never_allocated() -> None:
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, lambda write: write.protects)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        await c.delete(ResourceClaim, "gpu")
        await c.gone(ResourceClaim, "gpu")
        hold.go()
        assert say(ClaimCode.NOT_FOUND, claim="gpu") in await c.waits("p")
        assert (await c.pod("p")).spec.nodeName == ""
        await c.create(ResourceClaim, claim("gpu"))
        await c.runs("p")


async def test_a_claim_that_is_deleted_after_the_finalizer_is_not_allocated_and_goes() -> None:
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, allocates("gpu"))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        assert CLAIM_FINALIZER in (await c.claim("gpu")).metadata.finalizers
        await c.delete(ResourceClaim, "gpu")
        hold.go()
        await c.gone(ResourceClaim, "gpu")
        assert beginning(3) in await c.waits("p")
        await c.create(ResourceClaim, claim("gpu"))
        await c.runs("p")


async def test_a_claim_that_is_recreated_meanwhile_is_another_claim() -> None:
    async with cluster(devices=1, parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, lambda write: write.protects)
        first = await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        await c.delete(ResourceClaim, "gpu")
        await c.gone(ResourceClaim, "gpu")
        second = await c.create(ResourceClaim, claim("gpu", request(count=1)))
        hold.go()
        await c.runs("p")
        current = await c.claim("gpu")
        assert current.metadata.uid == second.metadata.uid != first.metadata.uid
        assert len(devices_of(current)) == 1


async def test_a_pod_that_is_deleted_while_it_is_bound_leaves_nothing_reserved() -> None:
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, lambda write: write.binds)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        assert [r.name for r in (await c.claim("gpu")).status.reservedFor] == ["p"]
        await c.delete(Pod, "p", grace=0)
        hold.go()
        await given_back(c, "gpu")
        await c.create(Pod, pod("q", claims=["gpu"]))
        await c.runs("q")


async def test_a_pod_that_is_deleted_while_it_is_bound_leaves_nothing_allocated_whoever_takes_it_back() -> None:
    async with cluster(parts=(NODES,)) as c:
        frees = await held(c, lambda write: write.deallocates, CONTROLLERS)
        binds = await held(c, lambda write: write.binds)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await binds.reached()
        await c.delete(Pod, "p", grace=0)
        await frees.reached()
        binds.go()
        await given_back(c, "gpu")
        frees.go()  # too late: the claim has changed
        await freed(c, "gpu")


async def test_devices_of_a_pod_that_could_not_be_bound_stay_while_it_waits_and_are_freed_when_it_is_deleted() -> None:
    async def refuse(write: Write) -> None:
        if write.binds:
            raise Forbidden("not now")

    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        c.hooks[SCHEDULER] = refuse
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        assert "not now" in await c.waits("p")
        await given_back(c, "gpu")
        await c.quiet()
        assert (await c.claim("gpu")).status.allocation is not None
        await c.delete(Pod, "p")
        await freed(c, "gpu")


async def given_back(c: Cluster, name: str) -> None:
    async def look() -> bool:
        return not (await c.claim(name)).status.reservedFor

    await c.eventually(look)


async def freed(c: Cluster, name: str) -> None:
    async def look() -> bool:
        return (await c.claim(name)).status.allocation is None

    await c.eventually(look)


# Two pods, one claim


async def test_two_pods_with_one_claim_share_one_allocation() -> None:
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, allocates("gpu"))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        await c.create(Pod, pod("q", claims=["gpu"]))
        assert words_of(ClaimCode.BEING_ALLOCATED) in await c.waits("q")
        hold.go()
        p, q = await c.runs("p"), await c.runs("q")
        assert p.spec.nodeName == q.spec.nodeName
        assert sum(write.allocates for write in hold.seen) == 1
        assert {r.name for r in (await c.claim("gpu")).status.reservedFor} == {"p", "q"}


async def test_two_schedulers_agree_on_one_allocation_of_a_shared_claim() -> None:
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        second = second_profile(c)
        holds = [await held(c, allocates("gpu"), name) for name in (SCHEDULER, SECOND_SCHEDULER)]
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]), pod("q", claims=["gpu"], schedulerName=second))
        for hold in holds:
            await hold.reached()
        for hold in holds:
            hold.go()
        p, q = await c.runs("p"), await c.runs("q")
        assert p.spec.nodeName == q.spec.nodeName
        assert {r.name for r in (await c.claim("gpu")).status.reservedFor} == {"p", "q"}


async def test_two_schedulers_never_give_one_device_away_twice() -> None:
    async with cluster(nodes=1, devices=1, parts=WITHOUT_SCHEDULER) as c:
        second = second_profile(c)
        holds = [await held(c, lambda write: write.allocates, name) for name in (SCHEDULER, SECOND_SCHEDULER)]
        await c.create(ResourceClaim, claim("a"), claim("b"))
        await c.create(Pod, pod("p", claims=["a"]), pod("q", claims=["b"], schedulerName=second))
        for hold in holds:
            await hold.reached()
        for hold in holds:
            hold.go()

        async def winner() -> str:
            pods = [await c.pod("p"), await c.pod("q")]
            return next((p.metadata.name for p in pods if p.status.phase == "Running"), "")

        first = await c.eventually(winner)
        loser = "q" if first == "p" else "p"
        assert await c.waits(loser, refused(NodeCode.CANNOT_ALLOCATE))
        await c.delete(Pod, first)
        await c.runs(loser)


async def test_two_schedulers_that_want_the_same_pods_place_each_once() -> None:
    async with cluster(devices=8, parts=WITHOUT_SCHEDULER) as c:
        await c.create(ResourceClaim, *(claim(f"c{i}") for i in range(24)))
        await c.start(SCHEDULER)
        await c.start(SECOND_SCHEDULER)
        await c.create(Pod, *(pod(f"p{i}", claims=[f"c{i}"]) for i in range(24)))
        await c.runs(*(f"p{i}" for i in range(24)))
        assert sorted(len(devices_of(one)) for one in await c.claims()) == [1] * 24


# An allocation that must move


async def test_a_claim_that_is_in_the_way_is_deallocated_unless_a_second_pod_takes_it_first() -> None:
    """The second pod reserves the claim while the first is about to deallocate it: the reservation counts."""
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.deallocates)
        await c.start(SCHEDULER)
        await unused_allocation(c, "gpu", "node-0")
        await c.create(Pod, pod("p", claims=["gpu"], **on_node("node-1")))
        await hold.reached()
        await c.create(Pod, pod("q", claims=["gpu"]))
        assert (await c.runs("q")).spec.nodeName == "node-0"
        hold.go()
        assert refused(NodeCode.CLAIM_ELSEWHERE) in await c.waits("p")
        await c.delete(Pod, "q")
        assert (await c.runs("p")).spec.nodeName == "node-1"


async def test_a_claim_that_is_being_deallocated_is_allocated_anew_for_all() -> None:
    async with cluster() as c:
        await unused_allocation(c, "gpu", "node-0")
        await c.create(Pod, pod("p", claims=["gpu"], **on_node("node-1")))
        await c.create(Pod, pod("q", claims=["gpu"]))
        assert (await c.runs("p")).spec.nodeName == "node-1"
        assert (await c.runs("q")).spec.nodeName == "node-1"


async def unused_allocation(c: Cluster, name: str, node: str) -> None:
    """A claim that is allocated on a node and reserved for nobody, as a scheduler that died leaves it."""
    made = await c.create(ResourceClaim, claim(name))
    await c.client.patch(ResourceClaim, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, "default")
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    patch = {"metadata": {"uid": made.metadata.uid}, "status": {"allocation": allocation}}
    await c.client.patch(ResourceClaim, name, patch, "default", subresource="status")


# Two claims


def prefers(node: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


async def test_two_pods_that_each_hold_one_of_two_claims_both_run_in_the_end() -> None:
    """Each scheduler has allocated the first claim of its pod, on another node, and cannot have the second."""
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        second = second_profile(c)
        await c.create(ResourceClaim, claim("a"), claim("b"))
        decided = [Hold(protects("a")), Hold(protects("b"))]
        halfway = [Hold(protects("b")), Hold(protects("a"))]
        for name, *holds in zip((SCHEDULER, SECOND_SCHEDULER), decided, halfway, strict=True):
            c.hooks[name] = in_turn(*holds)
            await c.start(name)
        await c.create(Pod, pod("p", claims=["a", "b"], **prefers("node-0")))
        await c.create(Pod, pod("q", claims=["b", "a"], schedulerName=second, **prefers("node-1")))
        for stage in (decided, halfway):
            await asyncio.gather(*(hold.reached() for hold in stage))
            held_by = [device[1] for name in ("a", "b") for device in devices_of(await c.claim(name))]
            assert held_by == ([] if stage is decided else ["node-0", "node-1"])
            for hold in stage:
                hold.go()
        p, q = await c.runs("p"), await c.runs("q")
        assert p.spec.nodeName == q.spec.nodeName


@pytest.mark.parametrize("kind", ["stopped", "failing"])
async def test_an_allocation_half_written_over_two_claims_is_given_up_when_it_is_in_the_way(kind: str) -> None:
    """The first claim is allocated on a node that has no second device any more; the pod goes elsewhere."""
    async with cluster(nodes=2, devices=2, parts=WITHOUT_SCHEDULER) as c:
        await c.client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
        hold = await held(c, allocates("b"))
        await c.create(ResourceClaim, claim("a"), claim("b"), claim("thief"))
        await c.create(Pod, pod("p", claims=["a", "b"]))
        await hold.reached()
        assert (await c.claim("a")).status.allocation is not None
        await c.client.patch(Node, "node-1", {"spec": {"unschedulable": None}})
        await take(c, "thief", "node-0", "gpu-1")
        if kind == "stopped":
            await c.stop(SCHEDULER)
            del c.hooks[SCHEDULER]
            await c.start(SCHEDULER)
        else:
            hold.go()
        assert (await c.runs("p")).spec.nodeName == "node-1"
        for name in ("a", "b"):
            assert {device[1] for device in devices_of(await c.claim(name))} == {"node-1"}


async def take(c: Cluster, name: str, node: str, device: str) -> None:
    """Allocate a device to a claim by hand, for a consumer that stays."""
    await c.client.patch(ResourceClaim, name, {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, "default")
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": device}
    consumer = {"apiGroup": "example.com", "resource": "robots", "name": "r2", "uid": "r2"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await c.client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


async def test_a_conflict_with_an_unrelated_writer_is_survived_within_the_same_binding(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "dray.scheduler")
    async with cluster(parts=WITHOUT_SCHEDULER) as c:
        hold = await held(c, allocates("gpu"))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await hold.reached()
        await c.client.patch(ResourceClaim, "gpu", {"metadata": {"labels": {"seen": "yes"}}}, "default")
        hold.go()
        await c.runs("p")
        assert "binding default/p failed" not in caplog.text
        assert sum(write.allocates for write in hold.seen) == 2
