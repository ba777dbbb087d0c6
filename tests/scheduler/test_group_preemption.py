"""Preemption by a gang on a real API server: who ends, what is kept for its pods until they are bound, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import InternalError
from dray.api.reasons import wording
from dray.api.reasons.nodes import PreemptionCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.core.nominations import PATIENCE
from tests.e2e.cluster import SCHEDULER, Cluster
from tests.e2e.interference import Write
from tests.e2e.objects import on_node, template
from tests.saying import words_of
from tests.scheduler.test_preemption import (
    alive,
    crowded,
    leaves,
    let_go,
    nominated,
    of,
    placed,
    priority_class,
    run_slowly,
)
from tests.scheduler.test_scheduler import unplaced

GATES = "GenericWorkload=true"


async def gang(c: Cluster, name: str = "g", size: int = 2, level: str = "high", **spec: Any) -> None:
    """A gang whose pods take one device each."""
    policy = {"schedulingPolicy": {"gang": {"minCount": size}}, "priorityClassName": level}
    await c.create(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": {**policy, **spec}})
    await c.create(Pod, *(member(f"{name}-{i}", name, level) for i in range(size)))


def member(name: str, group: str, level: str) -> dict[str, Any]:
    return of(level, name, templates=["one"], schedulingGroup={"podGroupName": group})


async def fill(c: Cluster, devices: int, nodes: int = 1) -> list[str]:
    """Less important pods on all devices, which end only when they are let go."""
    await c.create(ResourceClaimTemplate, template("one"))
    names = []
    for node in range(nodes):
        for device in range(devices):
            names.append(f"low-{node}{device}")
            await c.create(Pod, of("low", names[-1], templates=["one"], **on_node(f"node-{node}")))
    await run_slowly(c, *names)
    return names


async def condition(c: Cluster, group: str, text: str) -> str:
    async def look() -> str:
        found = (await c.client.get(PodGroup, group, "default")).status.conditions
        return next((one.message for one in found if text in one.message), "")

    return await c.eventually(look)


async def test_a_gang_preempts_as_many_pods_as_it_needs_and_its_victims_are_told_why() -> None:
    async with crowded(nodes=2, devices=2, gates=GATES) as c:
        names = await fill(c, 2, nodes=2)
        await gang(c, size=3)
        text = words_of(PreemptionCode.GROUP_WAITING)
        await c.waits("g-0", text)
        await condition(c, "g", text)
        gone: list[str] = []

        async def three_leave() -> bool:
            gone[:] = [name for name in names if not await alive(c, name)]
            return len(gone) >= 3

        await c.eventually(three_leave)
        assert len(gone) == 3
        for name in gone:
            victim = await leaves(c, name)
            told = next(one for one in victim.status.conditions if one.type == "DisruptionTarget")
            assert (told.status, told.reason) == ("True", "PreemptionByScheduler")
            assert told.message == wording.preempted_for("default-scheduler", group=True)
            uids = [(await c.pod(f"g-{i}")).metadata.uid for i in range(3)]
            assert await c.told(name, "Preempted") in [wording.preempted_by(uid, "cluster") for uid in uids]
        for i in range(3):
            await nominated(c, f"g-{i}")
        await let_go(c, *gone[:2])
        await c.quiet(0.1)
        assert not any([(await c.pod(f"g-{i}")).spec.nodeName for i in range(3)])
        await let_go(c, gone[2])
        for i in range(3):
            await placed(c, f"g-{i}")
            assert not (await c.pod(f"g-{i}")).status.nominatedNodeName
        assert await alive(c, *(name for name in names if name not in gone))


async def test_a_gang_that_nobody_s_end_helps_says_so_and_nobody_ends() -> None:
    async with crowded(devices=2, gates=GATES) as c:
        names = await fill(c, 2)
        await gang(c, size=3)
        await c.waits("g-0", words_of(PreemptionCode.GROUP_NO_VICTIMS))
        await condition(c, "g", words_of(PreemptionCode.GROUP_NO_VICTIMS))
        assert await alive(c, *names)


@pytest.mark.parametrize("way", ["the class", "the group"])
async def test_a_gang_that_preempts_nobody_says_so(way: str) -> None:
    gates = GATES + (",PodGroupPreemptionPolicy=true" if way == "the group" else "")
    async with crowded(devices=1, gates=gates) as c:
        await c.create(PriorityClass, priority_class("polite", 2000, preemptionPolicy="Never"))
        names = await fill(c, 1)
        await gang(c, size=1, level="polite", **({"preemptionPolicy": "Never"} if way == "the group" else {}))
        await c.waits("g-0", words_of(PreemptionCode.NEVER))
        assert await alive(c, *names)


async def test_freed_devices_are_kept_for_the_gang_also_after_a_restart() -> None:
    async with crowded(devices=2, gates=GATES) as c:
        quick, slow = await fill(c, 2)
        await gang(c)
        await leaves(c, quick)
        await leaves(c, slow)
        await let_go(c, quick)
        await nominated(c, "g-0")
        await nominated(c, "g-1")
        await c.create(Pod, of("mid", "thief", templates=["one"]))
        await c.waits("thief")
        await c.stop(SCHEDULER)
        await c.create(Pod, of("mid", "late", templates=["one"]))
        await c.start(SCHEDULER)
        await c.waits("late")
        await let_go(c, slow)
        await placed(c, "g-0")
        await placed(c, "g-1")
        await unplaced(c, "thief")
        await unplaced(c, "late")


async def test_a_better_placement_is_taken_at_once() -> None:
    async with crowded(nodes=2, devices=2, gates=GATES) as c:
        await fill(c, 2, nodes=1)
        await c.client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
        await gang(c)
        await nominated(c, "g-0")
        await c.client.patch(Node, "node-1", {"spec": {"unschedulable": None}})
        assert [await placed(c, f"g-{i}") for i in range(2)] == ["node-1", "node-1"]


async def test_a_more_important_gang_takes_over_the_places() -> None:
    async with crowded(devices=2, gates=GATES) as c:
        names = await fill(c, 2)
        await gang(c, "second", level="mid")
        await nominated(c, "second-0")
        await gang(c, "first")
        await nominated(c, "first-0")
        await let_go(c, *names)
        await placed(c, "first-0")
        await placed(c, "first-1")
        await unplaced(c, "second-0")


async def test_a_gang_that_is_disrupted_as_a_whole_leaves_as_a_whole_for_another() -> None:
    async with crowded(devices=3, gates=GATES) as c:
        await c.create(ResourceClaimTemplate, template("one"))
        await gang(c, "old", size=2, level="low", disruptionMode={"all": {}})
        await run_slowly(c, "old-0", "old-1")
        await gang(c, "new", size=2)
        await leaves(c, "old-0")
        await leaves(c, "old-1")

        async def told() -> bool:
            found = (await c.client.get(PodGroup, "old", "default")).status.conditions
            return any(one.type == "DisruptionTarget" and one.message.endswith("podgroup") for one in found)

        await c.eventually(told)
        await let_go(c, "old-0", "old-1")
        await placed(c, "new-0")
        await placed(c, "new-1")


async def test_nothing_is_kept_for_a_gang_that_is_not_complete_any_more() -> None:
    async with crowded(devices=2, gates=GATES) as c:
        names = await fill(c, 2)
        await gang(c)
        await nominated(c, "g-0")
        await leaves(c, names[0])
        await c.create(Pod, of("mid", "next", templates=["one"]))
        await c.waits("next")
        await c.delete(Pod, "g-1")
        await let_go(c, *names)
        await placed(c, "next")

        async def unnominated() -> bool:
            return not (await c.pod("g-0")).status.nominatedNodeName

        await c.eventually(unnominated)


async def test_a_place_is_kept_until_its_deadline() -> None:
    """One victim is gone and one never goes: others get the free device in the end."""
    async with crowded(nodes=1, devices=2, gates=GATES) as c:
        quick, stuck = await fill(c, 2)
        await gang(c)
        await nominated(c, "g-1")
        await leaves(c, quick)
        await leaves(c, stuck)
        await let_go(c, quick)
        await c.create(Pod, of("mid", "next", templates=["one"]))
        await c.waits("next")
        known = c.scheduler.core.state.nominations
        before = known._clock
        known._clock = lambda: before() + PATIENCE + 60
        assert await placed(c, "next") == "node-0"
        known._clock = before
        await let_go(c, stuck)
        await c.delete(Pod, "next", grace=0)
        await placed(c, "g-0")


@pytest.mark.parametrize("fails", ["condition", "deletion", "nomination"])
async def test_a_call_that_fails_is_made_up_for(fails: str) -> None:
    failures = 0

    async def fail(write: Write) -> None:
        nonlocal failures
        is_it = {
            "condition": "conditions" in write.changes and write.name.startswith("low"),
            "deletion": write.verb == "delete" and write.type is Pod,
            "nomination": bool(write.changes.get("nominatedNodeName")),
        }[fails]
        if is_it and not failures:
            failures += 1
            raise InternalError("try again")

    async with crowded(devices=2, gates=GATES) as c:
        names = await fill(c, 2)
        await c.stop(SCHEDULER)
        c.hooks[SCHEDULER] = fail
        await c.start(SCHEDULER)
        await gang(c)
        for name in names:
            await leaves(c, name)
        await let_go(c, *names)
        await placed(c, "g-0")
        await placed(c, "g-1")
        assert failures == 1
