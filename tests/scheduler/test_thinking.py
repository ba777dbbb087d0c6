"""Who waits for which work: pods that need the same share it, and what nobody needs is given up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from dray.allocator import Work
from dray.api.types.core import Pod
from dray.cel import Interrupt
from dray.core.queue import SchedulingQueue, Waiting
from dray.scheduler.thinking import Thinker
from tests.e2e.objects import pod
from tests.waiting import eventually


class Counting(Work):
    def __init__(self, upto: int | None) -> None:
        self.upto = upto
        self.count = 0

    def run(self, interrupt: Interrupt) -> bool:
        while self.count != self.upto:
            self.count += 1
            if interrupt():
                return False
        return True

    def found(self) -> int:
        return self.count

    def accept(self, found: int) -> None:
        self.count = found


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue(time.monotonic)


@pytest.fixture
async def thinker(queue: SchedulingQueue) -> AsyncIterator[Thinker]:
    made = Thinker(queue)
    yield made
    await made.close()


def waiting(queue: SchedulingQueue, name: str) -> Waiting:
    tree = pod(name)
    tree["metadata"]["uid"] = name
    return queue.add(msgspec.convert(tree, Pod))


async def gone_on(thinker: Thinker, one: Waiting, seconds: float | None = None) -> None:
    event = asyncio.Event()
    thinker.wait(one, seconds, lambda _: event.set())
    await asyncio.wait_for(event.wait(), 60)


async def given_up(work: Work) -> None:
    await eventually(lambda: not work.is_elsewhere)


async def test_a_pod_goes_on_when_its_work_is_done(thinker: Thinker, queue: SchedulingQueue) -> None:
    work, one = Counting(1000), waiting(queue, "p")
    thinker.need(one, [work])
    assert work.is_elsewhere
    await gone_on(thinker, one)
    assert work.count == 1000
    assert not work.is_elsewhere


async def test_a_pod_goes_on_when_some_of_its_work_is_done(thinker: Thinker, queue: SchedulingQueue) -> None:
    endless, short, one = Counting(None), Counting(1), waiting(queue, "p")
    thinker.need(one, [endless, short])
    await gone_on(thinker, one)
    assert short.count == 1
    assert endless.is_elsewhere


async def test_a_pod_goes_on_when_its_time_is_up(thinker: Thinker, queue: SchedulingQueue) -> None:
    endless, one = Counting(None), waiting(queue, "p")
    thinker.need(one, [endless])
    await gone_on(thinker, one, 0.01)
    assert endless.is_elsewhere


async def test_work_is_given_up_when_the_last_pod_needs_it_no_more(thinker: Thinker, queue: SchedulingQueue) -> None:
    endless, one, other = Counting(None), waiting(queue, "one"), waiting(queue, "other")
    for each in (one, other):
        thinker.need(each, [endless])
    thinker.forget("one")
    short = Counting(1)
    thinker.need(one, [short])
    await gone_on(thinker, one)
    assert endless.is_elsewhere
    thinker.forget("other")
    await given_up(endless)
    assert endless.count > 0


async def test_of_very_much_work_a_part_is_begun_at_a_time(
    thinker: Thinker, queue: SchedulingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.scheduler.thinking.BEGINNING", -1.0)
    works, one = [Counting(5) for _ in range(3)], waiting(queue, "p")
    for number in range(1, 4):
        thinker.need(one, [work for work in works if not work.count])
        await gone_on(thinker, one)
        assert sum(work.count == 5 for work in works) == number


async def test_a_pod_that_is_gone_does_not_go_on(thinker: Thinker, queue: SchedulingQueue) -> None:
    endless, one = Counting(None), waiting(queue, "p")
    thinker.need(one, [endless])
    queue.remove("p")
    thinker.wait(one, None, lambda _: pytest.fail("it went on"))
    await given_up(endless)
