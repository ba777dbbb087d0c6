"""Pods whose devices must be made ready first: what they wait for, what ends the wait, and what happens then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from dray.api.binding_conditions import BindingState, binding_deadline, device_binding, is_lost
from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.podclaims import Sharing
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.wording import Phrase, say
from dray.api.times import timestamp
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess
from dray.core.attempt import Promise
from dray.core.configuration import Configuration, SchedulerProfile
from dray.scheduler.conditions import BindingConditions, NotReady
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.tasks import Tasks
from dray.sim.hardware import DRIVER
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, Cluster, cluster
from tests.e2e.objects import claim, device, on_node, pod, request
from tests.saying import refused
from tests.scheduler.objects import pod as known_pod
from tests.waiting import eventually, quiet, within

READY, FAILED = f"{DRIVER}/attached", f"{DRIVER}/broken"
CONDITIONS = {"bindingConditions": [READY], "bindingFailureConditions": [FAILED]}
HASTY = Configuration({"default-scheduler": SchedulerProfile(binding_timeout=1.0)})
OFF = "DRADeviceBindingConditions=false"


async def attachable(c: Cluster, *numbers: int, **more: Any) -> None:
    """Let the only device of nodes need to be attached."""
    for number in numbers:
        devices = [device("gpu-0") | CONDITIONS | more]
        await c.eventually(lambda: published(c, f"node-{number}-{DRIVER}-0"))  # noqa: B023 (asked at once)
        await c.client.patch(ResourceSlice, f"node-{number}-{DRIVER}-0", {"spec": {"devices": devices}})


async def published(c: Cluster, name: str) -> bool:
    return any(piece.metadata.name == name for piece in (await c.client.list(ResourceSlice)).items)


async def tell(c: Cluster, name: str, **conditions: str) -> None:
    """Say something of the devices of a claim, as their driver does."""
    found = await c.claim(name)
    assert found.status.allocation is not None
    told = [
        {
            "type": kind,
            "status": status,
            "reason": "Told",
            "message": "so",
            "lastTransitionTime": timestamp(time.time()),
        }
        for kind, status in conditions.items()
    ]
    known = [
        {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": told}
        for r in found.status.allocation.devices.results
    ]
    await c.client.patch(ResourceClaim, name, {"status": {"devices": known}}, "default", subresource="status")


async def reserved(c: Cluster, name: str) -> str:
    """Wait until a claim is reserved for somebody; the node of its devices."""

    async def look() -> str:
        status = (await c.claim(name)).status
        if status.allocation is None or not status.reservedFor:
            return ""
        return status.allocation.devices.results[0].pool

    return await c.eventually(look)


def waits_ended(status: str) -> float:
    labels = {"profile": "default-scheduler", "driver": DRIVER, "status": status}
    return REGISTRY.get_sample_value("scheduler_dra_bindingconditions_allocations_total", labels) or 0.0


async def test_a_pod_is_bound_when_all_conditions_are_true_and_others_go_on_meanwhile() -> None:
    async with cluster(nodes=1, devices=1) as c:
        before = waits_ended("success")
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        said = await c.told("p", "BindingConditionsPending")
        assert said == say(Phrase.DEVICES_PENDING, node="node-0")
        found = (await c.claim("c")).status
        assert found.allocation is not None
        assert found.allocation.allocationTimestamp
        assert found.allocation.devices.results[0].bindingConditions == (READY,)
        await c.create(Pod, pod("other"))
        await c.runs("other")
        await tell(c, "c", **{READY: "False"})
        await c.quiet()
        assert (await c.pod("p")).spec.nodeName == ""
        await tell(c, "c", **{READY: "True"})
        await c.runs("p")
        assert waits_ended("success") == before + 1


async def test_two_pods_that_share_a_claim_are_both_bound_when_its_devices_are_ready() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        for name in ("first", "second"):
            await c.create(Pod, pod(name, claims=["c"]))
            await c.told(name, "BindingConditionsPending")
        await tell(c, "c", **{READY: "True"})
        await c.runs("first")
        await c.runs("second")


async def test_more_pods_wait_than_may_be_bound_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.scheduler.scheduler.BINDINGS_IN_FLIGHT", 2)
    async with cluster(nodes=3, devices=1) as c:
        await attachable(c, 0, 1, 2)
        for number in range(3):
            await c.create(ResourceClaim, claim(f"c{number}"))
            await c.create(Pod, pod(f"p{number}", claims=[f"c{number}"]))
            await reserved(c, f"c{number}")
        await c.create(Pod, pod("other"))
        await c.runs("other")


async def test_a_failure_frees_the_devices_and_the_pod_goes_elsewhere() -> None:
    async with cluster(nodes=2, devices=1) as c:
        before = waits_ended("failure")
        await attachable(c, 0, 1)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        first = await reserved(c, "c")
        await tell(c, "c", **{READY: "True", FAILED: "True"})
        said = say(Phrase.DEVICES_FAILED, claim="c", reason="Told", message="so")
        assert await c.told("p", "FailedScheduling", said) == said
        freed = say(Phrase.DEALLOCATED)
        said = say(Phrase.ALL_NODES, nodes=2, why=refused(NodeCode.CLAIM_LOST, 2))
        assert await c.told("p", "FailedScheduling", freed) == f"{said} {freed}"

        async def elsewhere() -> bool:
            return await reserved(c, "c") != first

        await c.eventually(elsewhere)
        assert (await c.claim("c")).status.devices == ()
        assert waits_ended("failure") == before + 1
        await tell(c, "c", **{READY: "True"})
        assert (await c.runs("p")).spec.nodeName != first


async def test_where_there_is_no_other_node_the_same_is_tried_again() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await reserved(c, "c")
        await tell(c, "c", **{FAILED: "True"})

        async def again() -> bool:
            status = (await c.claim("c")).status
            return bool(status.reservedFor) and not status.devices

        await c.eventually(again)
        await tell(c, "c", **{READY: "True"})
        await c.runs("p")


async def test_a_driver_that_says_nothing_is_given_up_on() -> None:
    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:
        before = waits_ended("timeout")
        c.configurations[SCHEDULER] = HASTY
        await c.start(SCHEDULER)
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await c.told("p", "FailedScheduling", say(Phrase.DEVICES_LATE, claim="c"))
        await c.told("p", "FailedScheduling", say(Phrase.DEALLOCATED))
        assert waits_ended("timeout") > before


async def test_a_claim_that_others_use_keeps_its_devices_whatever_fails_for_one_pod() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("first", claims=["c"]))
        await reserved(c, "c")
        await tell(c, "c", **{READY: "True"})
        await c.runs("first")
        await tell(c, "c", **{READY: "True", FAILED: "True"})
        await c.create(Pod, pod("second", claims=["c"]))
        await c.waits("second", say(Phrase.ALL_NODES, nodes=1, why=refused(NodeCode.CLAIM_LOST)))
        assert (await c.claim("c")).status.allocation is not None


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_scheduler_that_starts_in_the_middle_goes_on_or_gives_up(is_late: bool) -> None:
    async with cluster(nodes=1, devices=1) as c:
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await reserved(c, "c")
        await c.stop(SCHEDULER)
        if is_late:
            c.configurations[SCHEDULER] = HASTY
            deadline = binding_deadline(await c.claim("c"), 1.0)
            assert deadline is not None
            await eventually(lambda: time.time() > deadline)
        await c.start(SCHEDULER)
        if is_late:
            await c.told("p", "FailedScheduling", say(Phrase.DEALLOCATED))
        await reserved(c, "c")
        await tell(c, "c", **{READY: "True"})
        await c.runs("p")


async def test_a_pod_that_is_deleted_while_it_waits_gives_everything_back() -> None:
    async with cluster(nodes=1, devices=1) as c:
        before = waits_ended("error")
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"]))
        await reserved(c, "c")
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")

        async def freed() -> bool:
            return (await c.claim("c")).status.allocation is None and waits_ended("error") == before + 1

        await c.eventually(freed)


async def test_a_device_that_binds_to_its_node_is_for_that_node_only() -> None:
    async with cluster(nodes=2, devices=0) as c:
        shared = {"driver": DRIVER, "allNodes": True, "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1}}
        devices = [device("gpu-0") | CONDITIONS | {"bindsToNode": True}]
        await c.create(ResourceSlice, {"metadata": {"name": "net"}, "spec": shared | {"devices": devices}})
        await c.create(DeviceClass, {"metadata": {"name": "any"}, "spec": {}})
        await c.create(ResourceClaim, claim("c", request(class_="any")))
        await c.create(Pod, pod("p", claims=["c"], **on_node("node-1")))
        await reserved(c, "c")
        allocation = (await c.claim("c")).status.allocation
        assert allocation is not None
        assert allocation.nodeSelector is not None
        field = allocation.nodeSelector.nodeSelectorTerms[0].matchFields[0]
        assert (field.key, field.values) == ("metadata.name", ("node-1",))


async def test_without_the_gate_fields_are_dropped_where_they_are_new_and_kept_where_they_are_stored(
    tmp_path: Any,
) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with cluster(nodes=2, devices=1, store=store) as c:
        await attachable(c, 0)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, pod("p", claims=["c"], **on_node("node-0")))
        await reserved(c, "c")
        await tell(c, "c", **{READY: "True"})
        await c.runs("p")
    async with cluster(nodes=2, devices=1, store=store, gates=OFF) as c:
        await attachable(c, 1)
        stored, new = [await c.client.get(ResourceSlice, f"node-{n}-{DRIVER}-0") for n in (0, 1)]
        assert stored.spec.devices[0].bindingConditions == (READY,)
        assert new.spec.devices[0].bindingConditions == ()
        kept = (await c.claim("c")).status.allocation
        assert kept is not None
        assert kept.devices.results[0].bindingConditions == (READY,)
        await c.create(ResourceClaim, claim("d"))
        await c.create(Pod, pod("q", claims=["d"]))
        assert (await c.runs("q")).spec.nodeName == "node-1"  # at once: nothing is known of conditions
        allocation = (await c.claim("d")).status.allocation
        assert allocation is not None
        assert allocation.allocationTimestamp is None
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
    async with cluster(nodes=2, devices=1, store=store) as c:
        await c.create(ResourceClaim, claim("e"))
        await c.create(Pod, pod("r", claims=["e"]))
        assert await reserved(c, "e") == "node-0"
        await tell(c, "e", **{READY: "True"})
        await c.runs("r")


def test_shares_of_one_device_are_made_ready_one_by_one() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", **CONDITIONS}
    told = [{"type": READY, "status": "True"}]
    status: dict[str, Any] = {
        "allocation": {"devices": {"results": [result | {"shareID": "1"}, result | {"shareID": "2"}]}},
        "devices": [{"driver": "d", "pool": "p", "device": "x", "shareID": "1", "conditions": told}],
    }
    found = msgspec.convert({"metadata": {"name": "c"}, "status": status}, ResourceClaim)
    assert device_binding(found).state is BindingState.PENDING
    assert not is_lost(found, time.time(), 1)  # nobody noted since when
    status["devices"] = [status["devices"][0] | {"shareID": share} for share in ("1", "2")]
    ready = msgspec.convert({"metadata": {"name": "c"}, "status": status}, ResourceClaim)
    assert device_binding(ready).state is BindingState.READY


# Several claims, and news that come late


ALLOCATED = 1_800_000_000.0
TIMEOUT = 600.0


def attaching(
    name: str, version: int, told: str = "", since: float = ALLOCATED, users: tuple[str, ...] = ("uid-p",)
) -> ResourceClaim:
    """A claim with a device that is to be attached, as it is in one version; `told` is a condition that is true."""
    device = {"driver": DRIVER, "pool": "net", "device": name}
    result = {"request": "r", **device, **CONDITIONS}
    status = {
        "allocation": {"devices": {"results": [result]}, "allocationTimestamp": timestamp(since)},
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
        "devices": [{**device, "conditions": [{"type": told, "status": "True"}] if told else []}],
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


class Attached:
    """A pod that waits for the devices of its claims, at a time that stands still."""

    def __init__(self, client: Client, now: float, *claims: ResourceClaim) -> None:
        tasks = Tasks()
        self._waiting = known_pod("p")
        self._told = PodStatusWriter(client, tasks, time.monotonic)
        timeouts = {self._waiting.spec.schedulerName: TIMEOUT}
        self.conditions = BindingConditions(timeouts, Sharing(), tasks, self._told, lambda *_: None, lambda: now)
        uses = [ClaimUse(one, by_group=False) for one in claims]
        promise = Promise(PodClaims(self._waiting, None, uses, [], claims), "n", None)
        self.task = asyncio.create_task(self.conditions.ready(promise, claims))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    running = await Running.open(ServerSettings(authenticate=False))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def test_the_claim_that_was_allocated_first_decides_how_long_a_pod_waits(client: Client) -> None:
    early, late = attaching("early", 1), attaching("late", 2, since=ALLOCATED + TIMEOUT)
    for claims in ((early, late), (late, early)):
        waiting = Attached(client, ALLOCATED + TIMEOUT + 1, *claims)
        with pytest.raises(NotReady) as gave_up:
            await within(waiting.task)
        assert gave_up.value.status == "timeout"


async def test_a_failed_claim_ends_the_wait_while_another_is_pending(client: Client) -> None:
    pending, broken = attaching("pending", 1), attaching("broken", 2)
    for claims in ((pending, broken), (broken, pending)):
        waiting = Attached(client, ALLOCATED, *claims)
        await asyncio.sleep(0)
        waiting.conditions.claim_changed(attaching("broken", 3, FAILED), gone=False)
        with pytest.raises(NotReady) as gave_up:
            await within(waiting.task)
        assert (gave_up.value.status, gave_up.value.found.claim) == ("failure", "broken")


async def test_news_that_are_older_than_what_was_written_do_not_count(client: Client) -> None:
    waiting = Attached(client, ALLOCATED, attaching("c", 5))
    await asyncio.sleep(0)
    for outdated in (attaching("c", 4, users=()), attaching("c", 3, FAILED)):  # not reserved yet; an earlier attempt
        waiting.conditions.claim_changed(outdated, gone=False)
        await quiet(0)
        assert not waiting.task.done()
    waiting.conditions.claim_changed(attaching("c", 6, READY), gone=False)
    await within(waiting.task)
