"""Why pods wait, in which words they are told, and what makes them go on: the failure modes of KEP-4381."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.devices import InputCode
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.wording import Phrase, say
from dray.api.types.core import Event, Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.core.configuration import Configuration, SchedulerProfile
from dray.sim.hardware import CLASS, DRIVER, slice_trees
from tests.allocator.building import slowly
from tests.e2e.audit import devices_of
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import Write
from tests.e2e.objects import (
    alternatives,
    claim,
    device,
    device_class,
    on_node,
    pod,
    request,
    slice_of,
    template,
)
from tests.saying import beginning, refused, words_of


async def told_both(c: Cluster, name: str, text: str) -> str:
    """Event and condition say the same, and begin with Kubernetes' words."""
    message = await c.waits(name, text)
    assert message.startswith(beginning(3)), message
    assert await c.told(name, "FailedScheduling", message) == message
    return message


# What is missing


async def test_a_missing_template_is_told_and_the_pod_recovers_when_it_appears() -> None:
    async with cluster() as c:
        await c.create(Pod, pod("p", templates=["later"]))
        text = await c.told("p", "FailedResourceClaimCreation")
        assert text == (
            'PodResourceClaim t0: resource claim template "later": '
            'resourceclaimtemplate.resource.k8s.io "later" not found'
        )
        await told_both(c, "p", say(ClaimCode.NOT_CREATED, entry="t0"))
        await c.create(ResourceClaimTemplate, template("later"))
        await c.runs("p")


async def test_a_missing_claim_is_told_and_the_pod_recovers_when_it_appears() -> None:
    async with cluster() as c:
        await c.create(Pod, pod("p", claims=["later"]))
        await told_both(c, "p", say(ClaimCode.NOT_FOUND, claim="later"))
        await c.create(ResourceClaim, claim("later"))
        await c.runs("p")


async def test_a_missing_class_is_told_and_the_pod_recovers_when_it_appears() -> None:
    async with cluster() as c:
        await c.create(ResourceClaim, claim("gpu", request(class_="later")))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await told_both(c, "p", say(ClaimCode.CLASS_MISSING, request="r", subject="later"))
        await c.create(DeviceClass, device_class("later"))
        await c.runs("p")


async def test_too_few_devices_are_told_with_the_request_that_lacks_them() -> None:
    async with cluster(devices=1) as c:
        await c.create(ResourceClaim, claim("two", request(count=2)))
        await c.create(Pod, pod("p", claims=["two"]))
        message = await told_both(c, "p", refused(NodeCode.CANNOT_ALLOCATE, 3))
        assert "default/two" in message
        assert words_of(Phrase.REQUEST_SHORT) in message


async def test_a_claim_on_another_node_is_told_beside_the_other_reasons() -> None:
    async with cluster() as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"], **on_node("node-0")))
        await c.runs("p")
        await c.create(Pod, pod("q", claims=["gpu"], **on_node("node-1")))
        message = await told_both(c, "q", refused(NodeCode.CLAIM_ELSEWHERE))
        assert refused(NodeCode.NODE_AFFINITY, 2) in message
        await c.delete(Pod, "p")
        assert (await c.runs("q")).spec.nodeName == "node-1"


async def test_a_selector_that_fails_is_told_with_claim_selector_and_device() -> None:
    async with cluster() as c:
        await c.create(ResourceClaim, claim("c-cel", request(selector=f'device.attributes["{DRIVER}"].nope == 1')))
        await c.create(Pod, pod("p", claims=["c-cel"]))
        message = await told_both(c, "p", "no such key: nope")
        assert words_of(InputCode.SELECTOR_MISSING_KEY) in message
        assert f"{DRIVER}/node-0/gpu-0" in message
        # The driver publishes what the selector asks for: the pod recovers.
        await c.client.patch(
            ResourceSlice,
            f"node-1-{DRIVER}-0",
            {"spec": {"devices": [device("gpu-0", nope=1)], "pool": {"generation": 2}}},
        )
        for node in ("node-0", "node-2"):
            await c.client.delete(ResourceSlice, f"{node}-{DRIVER}-0")
        assert (await c.runs("p")).spec.nodeName == "node-1"


async def hard_to_pack(c: Cluster) -> list[str]:
    """Claims of groups with even sizes, each to be on one of four roots with 21 devices: one of each is always left."""
    await c.create(DeviceClass, device_class(CLASS))
    await c.create(ResourceSlice, slice_of("s", "node-0", *(device(f"d{i}", g=i // 21) for i in range(84))))
    sizes = [[8, 6, 4, 8, 6], [8, 6, 4, 8, 6], [6, 4, 4, 4]]
    for at, groups in enumerate(sizes):
        requests = [request(f"r{i}", count=size) for i, size in enumerate(groups)]
        constraints = [{"requests": [one["name"]], "matchAttribute": f"{DRIVER}/g"} for one in requests]
        await c.create(ResourceClaim, claim(f"hard-{at}", *requests, constraints=constraints))
    return [f"hard-{at}" for at in range(len(sizes))]


async def test_a_search_that_takes_too_long_is_told_and_does_not_stop_the_scheduler() -> None:
    async with cluster(nodes=1, devices=0, parts=(NODES, CONTROLLERS)) as c:
        c.configurations[SCHEDULER] = Configuration({"default-scheduler": SchedulerProfile(filter_timeout=0.5)})
        await c.start(SCHEDULER)
        await c.create(Pod, pod("p", claims=await hard_to_pack(c)))
        message = await c.waits("p", refused(NodeCode.DEVICES_TIMED_OUT))
        assert say(Phrase.ONE_NODE, node="node-0", why=say(NodeCode.DEVICES_TIMED_OUT)) in message
        await c.create(Pod, pod("q"))
        await c.runs("q")


@pytest.mark.parametrize("kind", ["selectors", "packing"])
async def test_no_part_of_an_attempt_holds_the_event_loop(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds of the thread's processor: twenty milliseconds are the aim, and machines differ."""
    turns: list[float] = []
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        task = getattr(handle._callback, "__self__", None)
        if isinstance(task, asyncio.Task) and task.get_name() == "scheduler loop":
            turns.append(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    async with cluster(nodes=1, devices=0, parts=(NODES, CONTROLLERS)) as c:
        c.configurations[SCHEDULER] = Configuration({"default-scheduler": SchedulerProfile(filter_timeout=0.5)})
        if kind == "packing":
            claims = await hard_to_pack(c)
        else:
            await slow_devices(c, 80, node_0=128)
            claims = ["slow"]
        await c.start(SCHEDULER)
        await c.create(Pod, pod("hostile", claims=claims), pod("ordinary"))
        await c.runs("ordinary")
        await c.waits("hostile", refused(NodeCode.DEVICES_TIMED_OUT))
    assert 0 < max(turns) < 0.1


async def slow_devices(c: Cluster, rounds: int, **numbers: int) -> None:
    """Devices that all differ, and a claim for one of them whose selector takes its time for each."""
    await c.create(DeviceClass, device_class("slow", 'device.driver == "slow.example.com"'))
    for at, (node, number) in enumerate(numbers.items()):
        devices = (device(f"d{i}", index=1000 * at + i) for i in range(number))
        name = node.replace("_", "-")
        await c.create(ResourceSlice, slice_of(f"slow-{name}", name, *devices, driver="slow.example.com"))
    expression = slowly('device.attributes["slow.example.com"].index >= 0', rounds)
    await c.create(ResourceClaim, claim("slow", request(class_="slow", selector=expression)))


async def test_a_node_that_takes_too_long_does_not_keep_a_pod_from_the_others() -> None:
    async with cluster(nodes=2, devices=0, parts=(NODES, CONTROLLERS)) as c:
        c.configurations[SCHEDULER] = Configuration({"default-scheduler": SchedulerProfile(filter_timeout=5.0)})
        await c.start(SCHEDULER)
        await slow_devices(c, 80, node_0=128, node_1=1)
        await c.create(Pod, pod("p", claims=["slow"]))
        assert (await c.runs("p")).spec.nodeName == "node-1"


async def test_others_get_their_turn_while_a_long_search_goes_on() -> None:
    bound: list[str] = []

    async def note(write: Write) -> None:
        if write.binds:
            bound.append(write.name)

    async with cluster(nodes=1, devices=0, parts=(NODES, CONTROLLERS)) as c:
        c.hooks[SCHEDULER] = note
        await slow_devices(c, 40, node_0=128)
        await c.create(Pod, pod("slow", claims=["slow"]), pod("quick"))
        await c.start(SCHEDULER)
        await c.runs("quick", "slow")
    assert bound == ["quick", "slow"]


async def test_a_shared_claim_that_is_full_lets_the_next_pod_in_when_a_place_frees() -> None:
    async with cluster(nodes=1, devices=1, parts=(NODES, CONTROLLERS)) as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.start(SCHEDULER)
        await c.create(Pod, *(pod(f"p{i}", claims=["gpu"]) for i in range(256)))
        await c.runs(*(f"p{i}" for i in range(256)))
        await c.create(Pod, pod("last", claims=["gpu"]))
        assert "256" in await c.waits("last", words_of(ClaimCode.FULL))
        await c.delete(Pod, "p17", grace=0)
        await c.runs("last")
        assert len((await c.claim("gpu")).status.reservedFor) == 256


async def test_pods_that_come_at_once_and_find_a_shared_claim_full_are_told_so_in_words() -> None:
    """Their reservations are under way when the last are decided, so only the write of the claim shows that it is full."""
    async with cluster(nodes=3, devices=1, parts=(NODES, CONTROLLERS)) as c:
        await c.create(ResourceClaim, claim("gpu"))
        names = [f"p{i}" for i in range(260)]
        await c.create(Pod, *(pod(name, claims=["gpu"]) for name in names))
        await c.start(SCHEDULER)

        async def last() -> list[str]:
            without = [one.metadata.name for one in (await c.client.list(Pod)).items if not one.spec.nodeName]
            return without if len(without) == 4 else []

        for name in await c.eventually(last):
            assert "256" in await c.waits(name, words_of(ClaimCode.FULL))
        events = (await c.client.list(Event)).items
        failed = {one.message for one in events if one.reason == "FailedScheduling"}
        assert failed
        assert [text for text in failed if "Too many" in text] == []


# Slices


async def test_withdrawn_slices_leave_running_pods_alone_and_keep_new_ones_waiting() -> None:
    async with cluster(nodes=1, devices=2) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(Pod, pod("before", templates=["t"]))
        await c.runs("before")
        await c.client.delete(ResourceSlice, f"node-0-{DRIVER}-0")
        await c.create(Pod, pod("after", templates=["t"]))
        assert refused(NodeCode.CANNOT_ALLOCATE) in await c.waits("after")
        assert (await c.pod("before")).status.phase == "Running"
        node = await c.client.get(Node, "node-0")
        await c.create(ResourceSlice, *slice_trees(0, 2, node.metadata.uid))
        await c.runs("after")
        held = {found for one in await c.claims() for found in devices_of(one)}
        assert len(held) == 2


async def test_an_incomplete_pool_gives_nothing_away_until_its_last_slice_is_there() -> None:
    async with cluster(nodes=1, devices=0) as c:
        await c.create(DeviceClass, device_class(CLASS))
        await c.create(ResourceSlice, slice_of("first", "node-0", device("a"), count=2))
        await c.create(ResourceClaim, claim("gpu"), claim("all", request(allocationMode="All")))
        await c.create(Pod, pod("p", claims=["all"]))
        await c.waits("p", words_of(InputCode.POOL_INCOMPLETE))
        await c.create(Pod, pod("q", claims=["gpu"]))
        assert refused(NodeCode.CANNOT_ALLOCATE) in await c.waits("q")
        await c.create(ResourceSlice, slice_of("second", "node-0", device("b"), count=2))
        await c.runs("p")
        assert {found[2] for found in devices_of(await c.claim("all"))} == {"a", "b"}
        await c.delete(Pod, "p")
        await c.runs("q")


async def test_a_pool_in_doubt_keeps_from_all_devices_of_its_node_only() -> None:
    async with cluster(nodes=2, devices=2) as c:
        await c.create(ResourceSlice, slice_of("s", "node-0", device("d"), driver="other.example.com", count=2))
        await c.create(ResourceClaim, claim("all", request(allocationMode="All")))
        await c.create(Pod, pod("p", claims=["all"]))
        assert (await c.runs("p")).spec.nodeName == "node-1"
        await c.create(ResourceClaim, claim("here", request(allocationMode="All")))
        await c.create(Pod, pod("q", claims=["here"], **on_node("node-0")))
        message = await c.waits("q", words_of(InputCode.POOL_INCOMPLETE))
        assert (await c.pod("q")).status.conditions[0].reason == "Unschedulable", message


async def test_two_entries_that_name_one_claim_get_it_once() -> None:
    async with cluster(nodes=1, devices=2) as c:
        await c.create(ResourceClaim, claim("c", request(count=2)))
        await c.create(Pod, pod("p", claims=["c", "c"]))
        await c.runs("p")
        found = await c.claim("c")
        assert len(devices_of(found)) == 2
        assert len(found.status.reservedFor) == 1


async def test_a_new_generation_of_a_pool_hides_the_old_one() -> None:
    async with cluster(nodes=1, devices=0) as c:
        await c.create(DeviceClass, device_class(CLASS))
        await c.create(ResourceSlice, slice_of("old", "node-0", device("old")))
        await c.create(ResourceSlice, slice_of("new", "node-0", device("new"), generation=2))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.runs("p")
        assert [found[2] for found in devices_of(await c.claim("gpu"))] == ["new"]


# Alternatives (KEP-4816)


async def test_the_node_with_the_better_alternative_wins() -> None:
    async with cluster(nodes=3, devices=0) as c:
        await c.create(DeviceClass, device_class(CLASS))
        await c.create(ResourceSlice, slice_of("s0", "node-0", device("d", model="small")))
        await c.create(ResourceSlice, slice_of("s1", "node-1", device("d", model="mid")))
        await c.create(ResourceSlice, slice_of("s2", "node-2", device("d", model="big")))
        wanted = [request(m, selector=f'device.attributes["{DRIVER}"].model == "{m}"') for m in ("big", "mid", "small")]
        for name, node in (("a", "node-2"), ("b", "node-1"), ("c", "node-0")):
            await c.create(ResourceClaim, claim(name, alternatives(*wanted)))
            await c.create(Pod, pod(name, claims=[name]))
            assert (await c.runs(name)).spec.nodeName == node
            assert (await c.claim(name)).status.allocation is not None
        assert devices_of(await c.claim("b"))[0][1] == "node-1"


# How quickly


@pytest.mark.parametrize("what", ["claim", "class", "template", "slice", "device"])
async def test_a_waiting_pod_goes_on_at_once(what: str) -> None:
    async with cluster(nodes=1, devices=0) as c:
        await c.create(DeviceClass, device_class(CLASS))
        await c.create(ResourceSlice, slice_of("s", "node-0", device("d")))
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(ResourceClaimTemplate, template("t"))
        seconds = sorted([await reaction(c, what, f"p{i}") for i in range(12)])
        assert seconds[6] < 0.5, seconds  # some milliseconds on a quiet machine; the shortest backoff is a second


async def reaction(c: Cluster, what: str, name: str) -> float:
    """Take something away, let a pod wait for it, give it back: seconds until the pod has a node."""
    vanish, appear, uses = changes(c, what)
    await vanish()
    await c.create(Pod, pod(name, **uses))
    if what == "device":
        await c.waits(name)
    else:
        await asyncio.sleep(0.02)
    started = time.perf_counter()
    await appear()

    async def bound() -> bool:
        return bool((await c.pod(name)).spec.nodeName)

    await c.eventually(bound)
    seconds = time.perf_counter() - started
    await c.delete(Pod, name, grace=0)
    await c.gone(Pod, name)

    async def released() -> bool:
        return not any(one.status.allocation for one in await c.claims())

    await c.eventually(released)
    return seconds


def changes(
    c: Cluster, what: str
) -> tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]], dict[str, Any]]:
    claims = {"claims": ["gpu"]}
    match what:
        case "claim":
            return lambda: c.delete(ResourceClaim, "gpu"), lambda: c.create(ResourceClaim, claim("gpu")), claims
        case "class":
            return lambda: c.delete(DeviceClass, CLASS, ""), lambda: c.create(DeviceClass, device_class(CLASS)), claims
        case "template":
            made = template("t")
            return (
                lambda: c.delete(ResourceClaimTemplate, "t"),
                lambda: c.create(ResourceClaimTemplate, made),
                {"templates": ["t"]},
            )
        case "slice":
            made = slice_of("s", "node-0", device("d"))
            return lambda: c.delete(ResourceSlice, "s", ""), lambda: c.create(ResourceSlice, made), claims
        case _:

            async def take() -> None:
                await c.create(ResourceClaimTemplate, template("holder"))
                await c.create(Pod, pod("holder", templates=["holder"]))
                await c.runs("holder")

            async def give() -> None:
                await c.delete(ResourceClaimTemplate, "holder")
                await c.delete(Pod, "holder", grace=0)

            return take, give, claims
