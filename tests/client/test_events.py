"""Events: written in the background, counted up, dropped rather than in the way."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY

from dray.api.errors import ApiError, InternalError, ServiceUnavailable, Timeout, TooManyRequests
from dray.api.types import core
from dray.api.types.meta import OwnerReference
from dray.client import Client, EventRecorder, ManualClock
from dray.client.clock import settle
from tests import objects
from tests.waiting import within


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def pod(near: Client) -> core.Pod:
    await near.create(core.Namespace, {"metadata": {"name": "ns"}})
    return await near.create(core.Pod, objects.pod(), namespace="ns")


@pytest.fixture
async def recorder(near: Client, clock: ManualClock) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(near, "tester", host="here", clock=clock)
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def events(client: Client, namespace: str = "ns") -> list[core.Event]:
    return [*(await client.list(core.Event, namespace)).items]


async def test_an_event_names_its_object_and_source(near: Client, recorder: EventRecorder, pod: core.Pod) -> None:
    recorder.warning(pod, "Broken", "it broke")
    await recorder.flush()
    (event,) = await events(near)
    about = event.involvedObject
    assert (about.kind, about.namespace, about.name, about.uid) == ("Pod", "ns", "p", pod.metadata.uid)
    assert (event.type, event.reason, event.message, event.count) == ("Warning", "Broken", "it broke", 1)
    assert (event.source.component, event.source.host, event.reportingComponent) == ("tester", "here", "tester")
    assert event.metadata.name.startswith("p.")
    assert event.firstTimestamp == event.lastTimestamp == "2001-09-09T01:46:40Z"


async def test_repetitions_count_up_one_event(
    near: Client, recorder: EventRecorder, pod: core.Pod, clock: ManualClock
) -> None:
    for _ in range(3):
        recorder.record(pod, "Again", "same")
        await recorder.flush()
        await clock.advance(60)
    recorder.record(pod, "Again", "other")
    await recorder.flush()
    first, second = sorted(await events(near), key=lambda e: -e.count)
    assert (first.count, second.count) == (3, 1)
    assert (first.firstTimestamp, first.lastTimestamp) == ("2001-09-09T01:46:40Z", "2001-09-09T01:48:40Z")


async def test_a_burst_is_written_once_with_its_count(near: Client, recorder: EventRecorder, pod: core.Pod) -> None:
    for _ in range(1000):
        recorder.record(pod, "Burst", "same")
    await recorder.flush()
    (event,) = await events(near)
    assert event.count == 1000


async def test_events_about_a_new_object_of_the_same_name_are_its_own(
    near: Client, recorder: EventRecorder, pod: core.Pod
) -> None:
    await near.delete(core.Pod, "p", "ns", grace=0)
    second = await near.create(core.Pod, objects.pod(), namespace="ns")
    for one in (pod, second):
        recorder.record(one, "Same", "the same")
    await recorder.flush()
    found = {(event.involvedObject.uid, event.count) for event in await events(near)}
    assert found == {(pod.metadata.uid, 1), (second.metadata.uid, 1)}


async def test_what_happens_while_an_event_is_written_is_counted(
    near: Client, recorder: EventRecorder, pod: core.Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, is_asked, may_answer = near.create, asyncio.Event(), asyncio.Event()

    async def slowly(*arguments: Any) -> Any:
        is_asked.set()
        await may_answer.wait()
        return await write(*arguments)

    monkeypatch.setattr(near, "create", slowly)
    recorder.record(pod, "Again", "and again")
    await within(is_asked.wait())
    recorder.record(pod, "Again", "and again")
    may_answer.set()
    await recorder.flush()
    assert [event.count for event in await events(near)] == [2]


async def test_after_the_window_a_new_event_begins(
    near: Client, recorder: EventRecorder, pod: core.Pod, clock: ManualClock
) -> None:
    recorder.record(pod, "Rare", "same")
    await recorder.flush()
    await clock.advance(601)
    recorder.record(pod, "Rare", "same")
    await recorder.flush()
    assert [event.count for event in await events(near)] == [1, 1]


async def test_an_event_that_expired_meanwhile_is_written_anew(
    near: Client, recorder: EventRecorder, pod: core.Pod
) -> None:
    recorder.record(pod, "Gone", "same")
    await recorder.flush()
    await near.delete_collection(core.Event, "ns")
    recorder.record(pod, "Gone", "same")
    await recorder.flush()
    assert [event.count for event in await events(near)] == [2]


async def test_events_about_cluster_wide_objects_live_in_default(near: Client, recorder: EventRecorder) -> None:
    await near.create(core.Namespace, {"metadata": {"name": "default"}})
    node = await near.create(core.Node, {"metadata": {"name": "n"}})
    recorder.record(node, "Ready", "it is")
    await recorder.flush()
    (event,) = await events(near, "default")
    assert event.involvedObject.namespace == ""


async def test_a_long_message_is_shortened(near: Client, recorder: EventRecorder, pod: core.Pod) -> None:
    recorder.record(pod, "Long", "ü" * 2000)
    await recorder.flush()
    (event,) = await events(near)
    assert len(event.message.encode()) <= 1024
    assert event.message.endswith("ü...")


def _dropped(component: str) -> float:
    return REGISTRY.get_sample_value("dray_events_dropped_total", {"source": component}) or 0.0


async def test_a_flood_is_dropped_and_counted(near: Client, pod: core.Pod, clock: ManualClock) -> None:
    recorder = EventRecorder(near, "flooded", clock=clock, limit=10)
    for number in range(25):
        recorder.record(pod, "Flood", str(number))
    assert _dropped("flooded") == 15
    task = asyncio.create_task(recorder.run())
    await recorder.flush()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(await events(near)) == 10


async def test_a_burst_is_told_in_parts_that_let_others_go_first(
    near: Client, recorder: EventRecorder, pod: core.Pod, clock: ManualClock
) -> None:
    for number in range(40):
        recorder.record(pod, "Burst", str(number))
    told = []
    for _ in range(3):
        await settle()
        told.append(len(await events(near)))
        await clock.advance(0.02)
    assert told == [16, 32, 40]
    await recorder.flush()


async def test_the_more_events_wait_the_sooner_they_are_written(
    near: Client, pod: core.Pod, clock: ManualClock
) -> None:
    recorder = EventRecorder(near, "crowded", clock=clock, limit=40)
    for number in range(40):
        recorder.record(pod, "Burst", str(number))
    task = asyncio.create_task(recorder.run())
    await clock.advance(0.009)  # two fifths of the whole pause, since three fifths of the room are taken
    assert len(await events(near)) == 32
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_all_pods_of_one_controller_share_a_bounded_number_of_events(pod: core.Pod, clock: ManualClock) -> None:
    """Nobody writes here, so what is dropped is what the recorder did not take."""
    recorder = EventRecorder(Refusing(), "shared", clock=clock)  # type: ignore[arg-type]
    owner = OwnerReference("apps/v1", True, True, "ReplicaSet", "web", "web")
    for number in range(1500):
        meta = replace(pod.metadata, uid=f"u{number}", name=f"p{number}", ownerReferences=(owner,))
        recorder.record(replace(pod, metadata=meta), "FailedScheduling", "no room")
    assert _dropped("shared") == 500
    recorder.record(pod, "FailedScheduling", "no room")  # another's budget
    assert _dropped("shared") == 500
    await clock.advance(10)
    for number in range(20):
        meta = replace(pod.metadata, uid=f"v{number}", ownerReferences=(owner,))
        recorder.record(replace(pod, metadata=meta), "FailedScheduling", "no room")
    assert _dropped("shared") == 510


async def test_what_cannot_count_up_any_more_is_forgotten(pod: core.Pod, clock: ManualClock) -> None:
    recorder = EventRecorder(Refusing(), "forgetful", clock=clock)  # type: ignore[arg-type]
    task = asyncio.create_task(recorder.run())

    class Name(str):  # a text cannot be referred to weakly
        pass

    names = [Name("first"), Name("second")]
    told = [weakref.ref(name) for name in names]
    for name in names:
        recorder.record(replace(pod, metadata=replace(pod.metadata, name=name)), "Broken", "it broke")
        await clock.advance(300)
    names.clear()
    del name
    recorder.record(pod, "Broken", "it broke")  # whoever writes still knows the last event that was written
    await clock.advance(0)
    assert [one() is not None for one in told] == [False, True]
    await clock.advance(600)
    assert told[1]() is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Refusing:
    async def create(self, *_: object, **__: object) -> None:
        raise InternalError("no")


async def test_a_server_that_refuses_events_stops_nothing(pod: core.Pod, clock: ManualClock) -> None:
    recorder = EventRecorder(Refusing(), "refused", clock=clock)  # type: ignore[arg-type]
    task = asyncio.create_task(recorder.run())
    recorder.record(pod, "A", "a")
    recorder.record(pod, "B", "b")
    await within(recorder.flush())
    await settle()
    assert _dropped("refused") == 2
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Hiccups:
    """A client whose server is away for the next few writes of an event; `heard` says that only the answers are lost."""

    def __init__(self, client: Client, error: ApiError, *, heard: bool = False) -> None:
        self._client = client
        self._error = error
        self._heard = heard
        self.left = 0
        self.writes = 0

    async def create(self, type_: type[core.Event], event: core.Event) -> None:
        await self._hiccup(lambda: self._client.create(type_, event))

    async def patch(self, type_: type[core.Event], name: str, patch: dict[str, Any], namespace: str) -> None:
        await self._hiccup(lambda: self._client.patch(type_, name, patch, namespace))

    async def _hiccup(self, write: Callable[[], Awaitable[core.Event]]) -> None:
        self.writes += 1
        self.left -= 1
        if self.left < 0 or self._heard:
            await write()
        if self.left >= 0:
            raise self._error


@asynccontextmanager
async def recording(
    client: Hiccups, component: str, clock: ManualClock, limit: int = 10
) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client, component, clock=clock, limit=limit)  # type: ignore[arg-type]
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("error", [ServiceUnavailable("restarting"), Timeout("slow"), TooManyRequests("busy")])
async def test_an_event_survives_hiccups_of_the_server_and_holds_up_no_other(
    near: Client, pod: core.Pod, clock: ManualClock, error: ApiError
) -> None:
    client = Hiccups(near, error)
    async with recording(client, "hiccups", clock) as recorder:
        client.left = 3
        recorder.record(pod, "First", "same")
        await within(recorder.flush())
        recorder.record(pod, "First", "same")  # waits for the retry, too
        await within(recorder.flush())
        assert client.writes == 1
        client.left = 0
        recorder.record(pod, "Second", "at once")
        await within(recorder.flush())
        assert [event.reason for event in await events(near)] == ["Second"]
        client.left = 2
        await clock.advance(29)
        assert client.writes == 4
        await clock.advance(2)
    assert {event.reason: event.count for event in await events(near)} == {"First": 2, "Second": 1}
    assert _dropped("hiccups") == 0


async def test_an_answer_that_is_lost_costs_neither_event_nor_count(
    near: Client, pod: core.Pod, clock: ManualClock
) -> None:
    client = Hiccups(near, ServiceUnavailable("cut"), heard=True)
    async with recording(client, "cut", clock) as recorder:
        client.left = 1
        for _ in range(2):
            recorder.record(pod, "Once", "same")
            await within(recorder.flush())
        await clock.advance(11)
    assert [event.count for event in await events(near)] == [2]


async def test_a_server_that_stays_away_costs_events_in_the_end_and_memory_never(
    near: Client, pod: core.Pod, clock: ManualClock
) -> None:
    client = Hiccups(near, ServiceUnavailable("gone"))
    async with recording(client, "away", clock, limit=5) as recorder:
        client.left = 1000
        for number in range(8):
            recorder.record(pod, "Lost", str(number))
            await within(recorder.flush())
        assert _dropped("away") == 3
        await clock.advance(300)
        assert _dropped("away") == 8
        assert client.writes == 5 * 12
        client.left = 0
        recorder.record(pod, "Lost", "0")
        await within(recorder.flush())
    assert [event.count for event in await events(near)] == [2]


class Slow:
    """Answers nobody before it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = asyncio.Event()

    async def create(self, _: type, event: core.Event) -> None:
        self.asked.append(event.message)
        await self.answer.wait()


async def test_a_slow_server_is_given_many_at_once_but_one_event_of_a_kind(pod: core.Pod, clock: ManualClock) -> None:
    slow = Slow()
    recorder = EventRecorder(slow, "patient", clock=clock)  # type: ignore[arg-type]
    task = asyncio.create_task(recorder.run())
    for message in "abc":
        recorder.record(pod, "Many", message)
    await settle()
    assert slow.asked == ["a", "b", "c"]
    recorder.record(pod, "Many", "a")
    await settle()
    assert slow.asked == ["a", "b", "c"]  # it counts up what is being written
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
