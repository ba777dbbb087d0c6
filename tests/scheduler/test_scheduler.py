"""The scheduler on a real API server: who is taken in, in which order, and what wakes a pod up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from dray.api.errors import AlreadyExists, Expired, Forbidden, InternalError
from dray.api.reasons import wording
from dray.api.reasons.nodes import NodeCode, Unschedulable
from dray.api.types.core import Event, Node, Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.client import Client, PatchKind
from dray.core.attempt import Attempt, PlacementDecision
from dray.sim.hardware import DRIVER, node_tree
from tests.e2e.cluster import NODES, SCHEDULER, Cluster, cluster
from tests.e2e.interference import Hold, Write
from tests.e2e.objects import claim, device, on_node, pod, request, template
from tests.saying import beginning, refused
from tests.waiting import eventually

ALONE = (NODES, SCHEDULER)


def needs(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}


async def add_node(client: Client, number: int, **spec: Any) -> None:
    tree = node_tree(number, "2024-01-01T00:00:00Z")
    await client.create(Node, {**tree, "spec": spec})
    await client.patch(Node, tree["metadata"]["name"], {"status": tree["status"]}, subresource="status")


async def unplaced(c: Cluster, name: str) -> None:
    await c.quiet(0.1)
    assert (await c.pod(name)).spec.nodeName == ""


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    async with cluster(parts=ALONE) as c:
        await c.create(Pod, pod("theirs", schedulerName="another"), pod("ours"))
        await c.runs("ours")
        await unplaced(c, "theirs")


async def test_a_gated_pod_is_not_tried_before_its_gates_are_removed() -> None:
    async with cluster(parts=ALONE) as c:
        await c.create(Pod, pod("p", schedulingGates=[{"name": "example.com/later"}]))
        await unplaced(c, "p")
        await c.client.patch(Pod, "p", {"spec": {"schedulingGates": None}}, "default")
        await c.runs("p")


async def test_higher_priority_goes_first() -> None:
    async with cluster(nodes=1, parts=(NODES,)) as c:
        await c.create(Pod, pod("low", priority=0, **needs("40")))
        await c.create(Pod, pod("high", priorityClassName="system-node-critical", **needs("40")))
        await c.start(SCHEDULER)
        await c.runs("high")
        assert refused(NodeCode.INSUFFICIENT, subject="cpu") in await c.waits("low")


@pytest.mark.parametrize(
    "event", ["pod gone", "pod done", "pod smaller", "node added", "node uncordoned", "node labelled", "taint gone"]
)
async def test_what_makes_room_wakes_the_pod_up(event: str) -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        wanted: dict[str, Any] = needs("40")
        if event.startswith("pod"):
            await c.create(Pod, pod("big", restartPolicy="Never", **needs("40")))
            await c.runs("big")
        elif event == "node labelled":
            wanted = {"nodeSelector": {"disk": "ssd"}}
        elif event == "taint gone":
            await c.client.patch(Node, "node-0", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        else:
            await c.client.patch(Node, "node-0", {"spec": {"unschedulable": True}})
        await c.create(Pod, pod("p", **wanted))
        assert (await c.waits("p")).startswith(beginning(1))
        match event:
            case "pod gone":
                await c.delete(Pod, "big")
            case "pod done":
                await c.client.patch(Pod, "big", {"status": {"phase": "Failed"}}, "default", subresource="status")
            case "pod smaller":
                smaller = {"spec": needs("1")}
                await c.client.patch(Pod, "big", smaller, "default", kind=PatchKind.STRATEGIC, subresource="resize")
            case "node added":
                await add_node(c.client, 7)
            case "node uncordoned":
                await c.client.patch(Node, "node-0", {"spec": {"unschedulable": None}})
            case "node labelled":
                await c.client.patch(Node, "node-0", {"metadata": {"labels": {"disk": "ssd"}}})
            case _:
                await c.client.patch(Node, "node-0", {"spec": {"taints": None}})
        await c.eventually(lambda: placed(c, "p"), 0.9)  # at once, not after a backoff


async def test_the_first_node_wakes_the_pod_up() -> None:
    async with cluster(nodes=0, devices=0, parts=ALONE) as c:
        await c.create(Pod, pod("p"))
        assert await c.waits("p") == wording.unschedulable(Unschedulable(0))
        await add_node(c.client, 7)
        await c.eventually(lambda: placed(c, "p"))


async def placed(c: Cluster, name: str) -> str:
    return (await c.pod(name)).spec.nodeName


@pytest.mark.parametrize("attribute", ["colour", "shade"])  # red somewhere; nowhere at all, where asking is an error
async def test_of_the_changes_of_slices_those_wake_the_pod_up_that_give_it_devices(attribute: str) -> None:
    async with cluster(nodes=2, devices=1, parts=ALONE) as c:
        await c.create(
            ResourceClaim, claim("c", request(selector=f'device.attributes["{DRIVER}"].{attribute} == "red"'))
        )

        async def publish(number: int, **attributes: str) -> None:
            changed = {"spec": {"devices": [device("gpu-0", **attributes)]}}
            await c.client.patch(ResourceSlice, f"node-{number}-{DRIVER}-0", changed)

        for number in range(2):
            await publish(number, colour="blue")
        await c.create(Pod, pod("p", claims=["c"]))
        await c.waits("p")
        await c.quiet()
        waiting = c.scheduler.core.queue.get((await c.pod("p")).metadata.uid)
        assert waiting is not None
        before = waiting.attempts
        for colour in ("green", "yellow", "blue"):
            await publish(0, colour=colour)
        await c.quiet()
        assert waiting.attempts == before
        await publish(0, **{attribute: "red"})
        if attribute == "shade":  # an error anywhere is an error
            await publish(1, shade="blue")
        await c.eventually(lambda: placed(c, "p"), 0.9)


async def test_of_changes_of_slices_that_come_together_the_last_one_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dray.scheduler.feed.LOOKS_APART", 0.3)  # longer than three writes take
    async with cluster(nodes=1, devices=1, parts=ALONE) as c:
        await c.create(ResourceClaim, claim("c", request(selector=f'device.attributes["{DRIVER}"].number == 3')))
        await c.create(Pod, pod("p", claims=["c"]))
        await c.waits("p")
        for number in (1, 2, 3):
            changed = {"spec": {"devices": [device("gpu-0", number=number)]}}
            await c.client.patch(ResourceSlice, f"node-0-{DRIVER}-0", changed)
        await c.eventually(lambda: placed(c, "p"))


async def test_of_many_pods_that_wait_for_devices_as_many_are_tried_as_devices_come() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaimTemplate, template("one"))
        names = [f"p{number}" for number in range(20)]
        await c.create(Pod, *(pod(name, templates=["one"]) for name in names))
        for name in names:
            await c.eventually(lambda name=name: told_or_placed(c, name))
        await c.quiet()
        queue = c.scheduler.core.queue
        attempts = {w.key: w.attempts for w in queue.refused_by()}
        assert len(attempts) == 19
        await c.client.patch(
            ResourceSlice, f"node-0-{DRIVER}-0", {"spec": {"devices": [device(f"gpu-{n}") for n in range(4)]}}
        )
        await c.eventually(lambda: three_less(c))
        await c.quiet()
        assert {w.key: w.attempts for w in queue.refused_by()}.items() <= attempts.items()


async def told_or_placed(c: Cluster, name: str) -> bool:
    found = await c.pod(name)
    return bool(found.spec.nodeName or found.status.conditions)


async def three_less(c: Cluster) -> bool:
    return len(c.scheduler.core.queue) == 16


async def test_neighbours_that_come_or_go_wake_the_pod_up() -> None:
    def affine(kind: str, app: str) -> dict[str, Any]:
        term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    async with cluster(nodes=1, parts=ALONE) as c:
        await c.create(Pod, pod("wants", **affine("podAffinity", "friend")))
        assert refused(NodeCode.POD_AFFINITY) in await c.waits("wants")
        await c.create(Pod, pod("friend", labels={"app": "friend"}))
        await c.runs("wants")
        await c.create(Pod, pod("avoids", **affine("podAntiAffinity", "friend")))
        assert refused(NodeCode.POD_ANTI_AFFINITY) in await c.waits("avoids")
        await c.delete(Pod, "friend")
        await c.runs("avoids")


def beside(app: str, *, wanted: bool) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    kind = "podAffinity" if wanted else "podAntiAffinity"
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def test_labels_of_a_neighbour_or_of_its_own_wake_the_pod_up() -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        await c.create(Pod, pod("there", **beside("loud", wanted=False)))
        await c.runs("there")
        await c.create(Pod, pod("near", **beside("x", wanted=True)), pod("far", labels={"app": "loud"}))
        for name, changed, label in (("near", "there", "x"), ("far", "far", "quiet")):
            await c.waits(name)
            await c.client.patch(Pod, changed, {"metadata": {"labels": {"app": label}}}, "default")
            await c.eventually(lambda name=name: placed(c, name))


async def test_a_domain_that_goes_wakes_the_pod_up() -> None:
    async with cluster(nodes=2, parts=ALONE) as c:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        await c.create(Pod, pod("there", labels={"app": "x"}, **on_node("node-0")))
        await c.runs("there")
        await c.client.patch(Node, "node-1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        await c.create(Pod, pod("p", labels={"app": "x"}, topologySpreadConstraints=[constraint]))
        await c.waits("p")
        await c.client.delete(Node, "node-1")
        await c.eventually(lambda: placed(c, "p"))


async def test_a_deleted_pod_is_forgotten() -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        await c.create(Pod, pod("p", **needs("999")))
        await c.waits("p")
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await c.quiet(0.05)
        assert len(c.scheduler.core.queue) == 0


async def test_the_same_reason_is_told_once() -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        await c.create(Pod, pod("p", **needs("999")))
        await c.waits("p")
        before = (await c.pod("p")).metadata.resourceVersion
        for number in range(5):
            await c.client.patch(Node, "node-0", {"metadata": {"labels": {"n": str(number)}}})
        await c.quiet()
        assert (await c.pod("p")).metadata.resourceVersion == before
        events = (await c.client.list(Event, "default", fields="involvedObject.name=p")).items
        assert [(e.reason, e.count) for e in events] == [("FailedScheduling", 1)]


async def test_whoever_sees_the_event_of_a_pod_that_waits_finds_its_condition() -> None:
    async with cluster(nodes=1, parts=(NODES,)) as c:
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.subresource == "status" and write.type is Pod)
        await c.start(SCHEDULER)
        await c.create(Pod, pod("p", nodeSelector={"disk": "ssd"}))
        await hold.reached()
        await c.quiet(0.1)
        assert not [write for write in hold.seen if write.type is Event]
        hold.go()
        await c.told("p", "FailedScheduling", "")
        (condition,) = (await c.pod("p")).status.conditions
        assert (condition.type, condition.status) == ("PodScheduled", "False")


async def test_a_pod_that_got_its_node_is_not_told_late_that_it_waits() -> None:
    """The words are still on their way to the server when the pod finds a node."""
    async with cluster(nodes=1, parts=(NODES,)) as c:
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.subresource == "status" and write.type is Pod)
        await c.start(SCHEDULER)
        await c.create(Pod, pod("p", nodeSelector={"disk": "ssd"}))
        await hold.reached()
        await c.client.patch(Node, "node-0", {"metadata": {"labels": {"disk": "ssd"}}})
        await c.quiet(0.1)
        hold.go()
        await c.runs("p")
        await c.quiet(0.1)
        conditions = {one.type: one.status for one in (await c.pod("p")).status.conditions}
        assert conditions["PodScheduled"] == "True"


async def test_one_pod_that_cannot_be_judged_does_not_keep_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        decide = c.scheduler.core.state.placement.decide

        def broken(attempt: Attempt) -> PlacementDecision:
            if attempt.pod.metadata.name == "bad":
                raise ZeroDivisionError("a mistake")
            return decide(attempt)

        monkeypatch.setattr(c.scheduler.core.state.placement, "decide", broken)
        await c.create(Pod, pod("bad"), pod("good"))

        async def runs() -> bool:
            return (await c.pod("good")).status.phase == "Running"

        for _ in range(1000):
            if await runs():
                break
            await asyncio.sleep(0.005)
        assert await runs()
        assert not c.parts[SCHEDULER].task.done()
        assert "a mistake" in c.audit.findings.pop()
        c.audit.findings.clear()


async def test_a_binding_that_fails_is_tried_again() -> None:
    failures = 1

    async def fails_once(write: Write) -> None:
        nonlocal failures
        if write.binds and failures:
            failures -= 1
            raise InternalError("the server has hiccups")

    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        c.hooks[SCHEDULER] = fails_once
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.runs("p")
        assert failures == 0


async def test_a_binding_that_fails_makes_room_for_others() -> None:
    failed = asyncio.Event()

    async def refuse(write: Write) -> None:
        if write.binds and write.name == "a":
            await failed.wait()
            raise Forbidden("never on this node")

    async with cluster(nodes=1, parts=(NODES,)) as c:
        c.hooks[SCHEDULER] = refuse
        await c.start(SCHEDULER)
        await c.create(Pod, pod("a", **needs("40")))
        await c.quiet()
        await c.create(Pod, pod("b", **needs("40")))
        assert refused(NodeCode.INSUFFICIENT, subject="cpu") in await c.waits("b")
        failed.set()
        await c.eventually(lambda: placed(c, "b"))


async def test_a_binding_that_fails_unexpectedly_is_tried_again() -> None:
    failures = iter([RuntimeError("nobody thought of this")])

    async def fail(write: Write) -> None:
        if write.binds and (failure := next(failures, None)) is not None:
            raise failure

    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        c.hooks[SCHEDULER] = fail
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await eventually(lambda: c.audit.findings)
        assert "nobody thought of this" in c.audit.findings.pop()
        await c.runs("p")


class Lossy:
    """A client whose watch of claims is lost once: what happens until it is `found` again is never told."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lost = False
        self.found = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def watch(self, type_: type[Any], *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        async for batch in self._client.watch(type_, *arguments, **options):
            if type_ is ResourceClaim and self.lost:
                await self.found.wait()
                self.lost = False
                raise Expired("too old resource version")
            yield batch


async def test_devices_whose_claim_was_allocated_and_freed_unseen_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Lossy] = []
    client_of = Cluster.client_of

    def lossy(cluster: Cluster, part: str) -> Any:
        client = client_of(cluster, part)
        if part == SCHEDULER:
            made.append(client := Lossy(client))
        return client

    monkeypatch.setattr(Cluster, "client_of", lossy)
    async with cluster(nodes=1, devices=1) as c:
        await c.create(ResourceClaim, claim("shared"), claim("other"))
        await c.quiet()
        made[0].lost = True
        await c.create(Pod, pod("a", claims=["shared"]))
        await c.runs("a")
        await c.delete(Pod, "a")
        await c.eventually(lambda: is_free(c, "shared"))
        made[0].found.set()
        await c.eventually(lambda: seen(made[0]))
        await c.create(Pod, pod("b", claims=["shared"]))
        await c.runs("b")
        await c.delete(Pod, "b")
        await c.create(Pod, pod("c", claims=["other"]))
        await c.runs("c")


async def is_free(c: Cluster, name: str) -> bool:
    return (await c.claim(name)).status.allocation is None


async def seen(client: Lossy) -> bool:
    return not client.lost


async def test_a_binding_that_is_refused_is_told_to_the_pod() -> None:
    async def refuses(write: Write) -> None:
        if write.allocates:
            raise Forbidden("the policy says no")

    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        c.hooks[SCHEDULER] = refuses
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        assert await c.waits("p") == wording.not_bound("node-0", "the policy says no")
        (told,) = (await c.pod("p")).status.conditions
        assert told.reason == "SchedulerError"


async def test_a_selector_that_fails_is_an_error_and_not_a_lack_of_devices() -> None:
    async with cluster(nodes=1, devices=1, parts=ALONE) as c:
        await c.create(ResourceClaim, claim("gpu", request(selector=f'device.attributes["{DRIVER}"].missing')))
        await c.create(Pod, pod("p", claims=["gpu"]))
        assert "no such key: missing" in await c.waits("p")
        (told,) = (await c.pod("p")).status.conditions
        assert told.reason == "SchedulerError"


async def test_bindings_overlap_the_next_attempts() -> None:
    async with cluster(nodes=1, devices=2, parts=(NODES,)) as c:
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.allocates and write.name == "slow")
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("slow"), claim("fast"))
        await c.create(Pod, pod("slow", claims=["slow"]))
        await hold.reached()
        await c.create(Pod, pod("fast", claims=["fast"]))
        await c.runs("fast")
        assert await placed(c, "slow") == ""
        hold.go()
        await c.runs("slow")


async def test_a_scheduler_that_is_stopped_gives_reservations_back() -> None:
    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        hold = c.hooks[SCHEDULER] = Hold(lambda write: write.binds)
        await c.start(SCHEDULER)
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"], **on_node("node-0")))
        await hold.reached()
        assert (await c.claim("gpu")).status.reservedFor
        await c.stop(SCHEDULER)
        assert not (await c.claim("gpu")).status.reservedFor


async def test_every_pod_is_told_which_claim_is_missing_whenever_it_came() -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        for name in ("a", "b", "c"):  # each while the one before it is not told yet
            await c.create(Pod, pod(name, claims=[f"missing-{name}"]))
            await c.quiet(0.05)
        for name in ("a", "b", "c"):
            assert f"missing-{name}" in await c.waits(name)
        await c.create(Pod, pod("d", claims=["missing-d"]))  # after the others were told
        assert "missing-d" in await c.waits("d")


async def taint(c: Cluster, pool: str) -> None:
    """Let a rule keep pods off the devices of a pool, and off no others."""
    selector = {"driver": DRIVER, "pool": pool}
    spec = {"deviceSelector": selector, "taint": {"key": "example.com/broken", "effect": "NoSchedule"}}
    try:
        await c.client.create(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})
    except AlreadyExists:
        await c.client.patch(DeviceTaintRule, "r", {"spec": spec})


async def test_devices_that_a_rule_means_no_more_wake_the_pod_up() -> None:
    async with cluster(nodes=2, devices=1, parts=ALONE) as c:
        await taint(c, "node-0")
        await c.create(ResourceClaim, claim("c0"), claim("c1"))
        await c.create(Pod, pod("p0", claims=["c0"]))
        await c.runs("p0")
        assert await placed(c, "p0") == "node-1"
        await c.create(Pod, pod("p1", claims=["c1"]))
        await c.waits("p1")
        await taint(c, "node-1")
        await c.runs("p1")
        assert await placed(c, "p1") == "node-0"


async def test_a_deleted_rule_stays_away_when_slices_change() -> None:
    async with cluster(nodes=1, devices=1, parts=ALONE) as c:
        await taint(c, "node-0")
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await c.waits("p")
        await c.client.patch(Node, "node-0", {"spec": {"unschedulable": True}})
        await c.delete(DeviceTaintRule, "r")
        changed = {"spec": {"devices": [device("gpu-0", colour="blue")]}}
        await c.client.patch(ResourceSlice, f"node-0-{DRIVER}-0", changed)
        await c.quiet()
        await c.client.patch(Node, "node-0", {"spec": {"unschedulable": None}})
        await c.runs("p")


async def test_devices_that_become_free_among_other_news_of_claims_wake_the_pod_up() -> None:
    async with cluster(nodes=1, devices=1, parts=ALONE) as c:
        others = [f"other-{number}" for number in range(20)]
        await c.create(ResourceClaim, claim("held"), claim("wanted"), *(claim(name) for name in others))
        await c.create(Pod, pod("holder", claims=["held"]))
        await c.runs("holder")
        await c.create(Pod, pod("p", claims=["wanted"]))
        await c.waits("p")
        await c.delete(Pod, "holder")
        await c.gone(Pod, "holder")
        nothing = {"status": {"allocation": None, "reservedFor": None}}
        news = {"metadata": {"labels": {"n": "1"}}}
        await asyncio.gather(
            c.client.patch(ResourceClaim, "held", nothing, "default", subresource="status"),
            *(c.client.patch(ResourceClaim, name, news, "default") for name in others),
        )
        await c.runs("p")


async def test_a_gated_pod_that_changes_is_not_tried_either() -> None:
    async with cluster(nodes=1, parts=ALONE) as c:
        await c.create(Pod, pod("gated", schedulingGates=[{"name": "example.com/later"}], **needs("999")))
        await c.client.patch(Pod, "gated", {"metadata": {"labels": {"a": "b"}}}, "default")
        await c.create(Pod, pod("after"))
        await c.runs("after")
        reasons = {one.reason for one in (await c.pod("gated")).status.conditions}
        assert "Unschedulable" not in reasons
        await c.client.patch(Pod, "gated", {"spec": {"schedulingGates": None}}, "default")
        await c.waits("gated", refused(NodeCode.INSUFFICIENT, 1, subject="cpu"))
