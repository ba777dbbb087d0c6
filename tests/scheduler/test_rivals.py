"""Two allocators on one pool, on a server that does not hold devices: who gives way, and what is reported."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from dray.api.allocations import taken_by_claim
from dray.api.gates import FeatureGates
from dray.api.types.core import Event, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.write.holds import DeviceHolds
from dray.client import Delta, EventRecorder, InProcess, key_of
from dray.client.clock import settle
from dray.core.configuration import Configuration, SchedulerProfile
from dray.inspect.explain import explain_claim
from dray.inspect.reading import NAMESPACES, fetch
from dray.scheduler import Scheduler
from dray.scheduler.rivals import AllocatedDevices, other_schedulers
from dray.sim.hardware import DRIVER
from tests.e2e.cluster import NODES, Cluster, cluster
from tests.e2e.interference import Hold, Write, interposed
from tests.e2e.objects import claim, pod
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def without_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server does not hold devices, as Kubernetes' does not."""
    monkeypatch.setattr(DeviceHolds, "ops", lambda self, old, new: [])


def rules_of(name: str) -> Configuration:
    return Configuration({name: SchedulerProfile(name)})


def started(c: Cluster, name: str, hook: Any = None, **options: Any) -> tuple[Scheduler, asyncio.Task[None]]:
    client: Any = InProcess(c.running.api, ADMIN)
    client = interposed(client, hook) if hook is not None else client
    scheduler = Scheduler(client, FeatureGates(), rules_of(name), holds_devices=False, **options)
    return scheduler, asyncio.create_task(scheduler.run())


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def allocates(write: Write) -> bool:
    return write.type is ResourceClaim and write.allocates


async def owners(c: Cluster) -> list[str]:
    return [one.metadata.name for one in await c.claims() if one.status.allocation is not None]


async def placed(c: Cluster) -> list[str]:
    return [name for name in ("a", "b") if (await c.pod(name)).spec.nodeName]


def twice() -> float | None:
    return REGISTRY.get_sample_value("dray_devices_allocated_twice")


async def test_of_two_schedulers_that_take_one_device_the_second_gives_way() -> None:
    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        first, second = Hold(allocates), Hold(allocates)
        tasks = [started(c, name, hold)[1] for name, hold in (("a", first), ("b", second))]
        for name in ("a", "b"):
            await c.create(ResourceClaim, claim(name))
            await c.create(Pod, pod(name, claims=[name], schedulerName=name))
        await first.reached()
        await second.reached()
        first.go()

        async def has_won() -> bool:
            return await placed(c) == ["a"]

        await eventually(has_won)
        second.go()

        async def has_given_way() -> bool:
            return len([write for write in second.seen if write.deallocates]) == 1 and await owners(c) == ["a"]

        await eventually(has_given_way)
        assert await placed(c) == ["a"]
        await stop(*tasks)
        c.audit.findings.clear()  # for a moment both claims had the device


async def test_a_device_that_two_claims_have_is_told_by_event_metric_and_explain() -> None:
    async with cluster(nodes=1, devices=1, parts=(NODES,)) as c:
        scheduler, task = started(c, "a")
        await c.create(ResourceClaim, claim("a"), claim("b"))
        await c.create(Pod, pod("a", claims=["a"], schedulerName="a"))

        async def is_allocated() -> bool:
            return bool(await owners(c))

        await eventually(is_allocated)
        allocation = {"status": {"allocation": _tree(await c.claim("a"))}}
        await c.client.patch(ResourceClaim, "b", allocation, "default", subresource="status")
        await eventually(lambda: twice() == 1)
        [device] = scheduler.allocated.twice
        assert device.driver == DRIVER
        for name in ("a", "b"):
            assert f"device {device} is allocated to the claims default/a and default/b" in await _event(c, name)
        found = explain_claim(await fetch(c.client, "default", NAMESPACES), "default", "b")
        assert [(one.device, one.claims) for one in found.twice] == [(str(device), ("default/a", "default/b"))]
        gone = {"status": {"allocation": None}}
        await c.client.patch(ResourceClaim, "b", gone, "default", subresource="status")
        await eventually(lambda: twice() == 0)
        await stop(task)
        c.audit.findings.clear()


def _tree(found: ResourceClaim) -> Any:
    return msgspec.to_builtins(found.status.allocation)


async def _event(c: Cluster, name: str) -> str:
    async def message() -> str:
        events = (await c.client.list(Event, "default")).items
        told = (one for one in events if one.reason == "DeviceAllocatedTwice" and one.involvedObject.name == name)
        return next((one.message for one in told), "")

    return await eventually(message)


async def test_only_pools_that_are_assigned_are_allocated_from() -> None:
    async with cluster(nodes=2, devices=1, parts=(NODES,)) as c:
        _, task = started(c, "a", allocates_from={f"{DRIVER}/node-1"})
        for name in ("a", "b"):
            await c.create(ResourceClaim, claim(name))
            await c.create(Pod, pod(name, claims=[name], schedulerName="a"))

        async def one_waits() -> bool:
            pods = [await c.pod(name) for name in ("a", "b")]
            refused = [one for one in pods if any(found.status == "False" for found in one.status.conditions)]
            return len(await placed(c)) == len(refused) == 1

        await eventually(one_waits)
        [device] = [one for claim_ in await c.claims() for one in taken_by_claim(claim_).devices]
        assert device.pool == "node-1"
        await stop(task)


async def test_whose_pods_are_there_is_told_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(nodes=1, parts=(NODES,)) as c:
        await c.create(Pod, pod("theirs"), pod("x", schedulerName="third"), pod("y", schedulerName="third"))
        _, task = started(c, "a")
        expected = (
            "other schedulers have pods here: third (2 pods), default-scheduler (1 pod); this API server lets two"
        )
        await eventually(lambda: any(expected in record.getMessage() for record in caplog.records))
        await stop(task)
        c.audit.findings.clear()
    assert other_schedulers((), ()) == ""


class Copy:
    """Stands for an informer of claims whose watch is late."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], ResourceClaim] = {}
        self.handlers: list[Any] = []

    def add_handler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def get(self, *key: str) -> ResourceClaim | None:
        return self.objects.get(key)  # type: ignore[call-overload, no-any-return]

    def deliver(self, new: ResourceClaim) -> None:
        old = self.objects.get(key := key_of(new))
        self.objects[key] = new
        for handler in self.handlers:
            handler([Delta(old, new)])


def allocated(name: str, version: int) -> ResourceClaim:
    result = {"request": "r", "driver": "d.io", "pool": "p", "device": "x"}
    status = {"allocation": {"devices": {"results": [result]}}}
    meta = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


async def test_a_claim_that_was_written_earlier_counts_although_its_watch_event_is_late() -> None:
    copy = Copy()
    devices = AllocatedDevices(copy, EventRecorder(None, "test"))  # type: ignore[arg-type]
    asking = asyncio.create_task(devices.rival_of(allocated("ours", 7)))
    await settle()
    assert not asking.done()
    copy.deliver(allocated("theirs", 5))
    await settle()
    assert not asking.done()
    copy.deliver(allocated("ours", 7))
    assert await asking == "d.io/p/x belongs to resourceclaim ns/theirs"


async def test_a_claim_that_is_written_later_does_not_count() -> None:
    copy = Copy()
    devices = AllocatedDevices(copy, EventRecorder(None, "test"))  # type: ignore[arg-type]
    copy.deliver(allocated("ours", 7))
    assert await devices.rival_of(allocated("ours", 7)) == ""
