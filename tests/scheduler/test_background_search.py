"""Who waits for which work: pods that need the same share it, and what nobody needs is given up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Hashable
from types import SimpleNamespace
from typing import TypeVar

import msgspec
import pytest

from dray.allocator import Budget, Turn, Work
from dray.api.types.core import Pod
from dray.background import Background, Computation
from dray.background.turns import ALLOWANCE
from dray.cel import Interrupt
from dray.core.queue import SchedulingQueue, Waiting
from dray.scheduler.background_search import AHEAD, DEVICE, BackgroundSearch
from tests.allocator.test_budget import COSTLY, cluster, packing
from tests.e2e.objects import pod
from tests.waiting import eventually

T = TypeVar("T")


class Counting(Work):
    size = 10

    def __init__(self, upto: int | None) -> None:
        self.upto = upto

    @property
    def is_over(self) -> bool:
        return self.steps == self.upto

    def run(self, interrupt: Interrupt) -> bool:
        while not self.is_over:
            self.steps += 1
            if interrupt():
                return False
        return True

    def found(self) -> int:
        return self.steps

    def accept(self, found: int) -> None:
        self.steps = found


class Failing(Counting):
    def run(self, interrupt: Interrupt) -> bool:
        raise ValueError("nobody thought of this")


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue(time.monotonic)


class RecordingBackground(Background):
    """Notes in which round of the event loop computations are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.round = 0
        self.sent: list[int] = []

    def tick(self, until: int) -> None:
        """Count rounds until so many computations are sent."""
        self.round += 1
        if len(self.sent) < until:
            asyncio.get_running_loop().call_soon(self.tick, until)

    async def compute(self, computation: Computation[T], kind: str, user: str = "", job: Hashable | None = None) -> T:
        self.sent.append(self.round)
        return await super().compute(computation, kind, user, job)


@pytest.fixture
async def background() -> AsyncIterator[RecordingBackground]:
    made = RecordingBackground()
    yield made
    await made.close()


@pytest.fixture
async def background_search(queue: SchedulingQueue, background: RecordingBackground) -> AsyncIterator[BackgroundSearch]:
    made = BackgroundSearch(queue, background)
    yield made
    await made.close()


def waiting(queue: SchedulingQueue, name: str) -> Waiting:
    tree = pod(name)
    tree["metadata"]["uid"] = name
    return queue.add(msgspec.convert(tree, Pod))


async def gone_on(background_search: BackgroundSearch, one: Waiting) -> None:
    event = asyncio.Event()
    background_search.wait(one, lambda _: event.set())
    await asyncio.wait_for(event.wait(), 60)


async def given_up(work: Work) -> None:
    await eventually(lambda: not work.is_in_worker_process)


async def test_a_pod_goes_on_when_its_work_is_done(background_search: BackgroundSearch, queue: SchedulingQueue) -> None:
    work, one = Counting(1000), waiting(queue, "p")
    background_search.need(one, [work])
    assert work.is_in_worker_process
    await gone_on(background_search, one)
    assert work.steps == 1000
    assert not work.is_in_worker_process


async def test_a_pod_goes_on_when_some_of_its_work_is_done(
    background_search: BackgroundSearch, queue: SchedulingQueue
) -> None:
    short, endless, one = Counting(1), Counting(None), waiting(queue, "p")
    background_search.need(one, [short, endless])
    await gone_on(background_search, one)
    assert short.steps == 1
    assert endless.is_in_worker_process


async def test_the_work_of_one_pod_does_not_wait_for_that_of_another(
    background_search: BackgroundSearch, queue: SchedulingQueue
) -> None:
    endless, short, one, other = Counting(None), Counting(1), waiting(queue, "one"), waiting(queue, "other")
    background_search.need(one, [endless])
    background_search.need(other, [short])
    await gone_on(background_search, other)
    assert short.steps == 1
    assert endless.is_in_worker_process


async def test_work_is_given_up_when_the_last_pod_needs_it_no_more(
    background_search: BackgroundSearch, queue: SchedulingQueue
) -> None:
    endless, one, other = Counting(None), waiting(queue, "one"), waiting(queue, "other")
    for each in (one, other):
        background_search.need(each, [endless])
    background_search.forget("one")
    short = Counting(1)
    background_search.need(one, [short])
    await gone_on(background_search, one)
    assert endless.is_in_worker_process
    background_search.forget("other")
    await given_up(endless)


async def test_all_work_that_a_pod_needs_is_done_though_few_works_are_sent_at_a_time(
    background_search: BackgroundSearch, queue: SchedulingQueue
) -> None:
    works, one = [Counting(5) for _ in range(50)], waiting(queue, "p")
    background_search.need(one, works)
    assert sum(work.is_in_worker_process for work in works) == AHEAD
    await eventually(lambda: all(work.steps == 5 for work in works))


async def test_devices_are_written_down_in_turns_of_the_event_loop(
    background_search: BackgroundSearch, queue: SchedulingQueue, background: RecordingBackground
) -> None:
    works = [Counting(5) for _ in range(10)]
    background.tick(len(works))
    for number, work in enumerate(works):
        work.size = ALLOWANCE // DEVICE
        background_search.need(waiting(queue, f"p{number}"), [work])
    await eventually(lambda: len(background.sent) == len(works))
    assert len({*background.sent}) == len(works)


async def test_work_that_was_cancelled_is_not_lost(background_search: BackgroundSearch, queue: SchedulingQueue) -> None:
    endless, one = Counting(None), waiting(queue, "p")
    background_search.need(one, [endless])
    background_search.forget("p")
    await given_up(endless)
    assert not endless.is_given_up
    background_search.need(one, [endless])
    background_search.forget("p")
    background_search.need(one, [endless])  # before it has ended
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert endless.is_in_worker_process


async def test_work_that_fails_is_given_up_and_the_pod_goes_on(
    background_search: BackgroundSearch, queue: SchedulingQueue
) -> None:
    failing, one = Failing(5), waiting(queue, "p")
    background_search.need(one, [failing])
    await gone_on(background_search, one)
    assert failing.is_given_up


async def test_a_pod_that_is_gone_does_not_go_on(background_search: BackgroundSearch, queue: SchedulingQueue) -> None:
    endless, one = Counting(None), waiting(queue, "p")
    background_search.need(one, [endless])
    queue.remove("p")
    background_search.wait(one, lambda _: pytest.fail("it went on"))
    await given_up(endless)


@pytest.mark.parametrize("size", [3, 5])
async def test_an_index_answers_with_the_process_as_without_it_whatever_clocks_say(
    background_search: BackgroundSearch, queue: SchedulingQueue, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    chance, ahead = random.Random(size), [0.0]

    def jumping() -> float:
        ahead[0] += chance.choice((0.0, 0.05, 60.0))
        return ahead[0]

    monkeypatch.setattr("dray.scheduler.background_search.time", SimpleNamespace(monotonic=jumping))
    one = waiting(queue, "p")
    for wish in (packing(*[size] * 5), COSTLY):
        for budget in (Budget(200), Budget(600, 1200, 200), Budget(100_000, 600_000)):
            index = cluster()
            while True:
                fits = index.fits([wish], budget, turn=Turn())
                left = index.left_over()
                if not left.is_anything:
                    break
                background_search.need(one, left.works)
                if not left.is_hurried:
                    await gone_on(background_search, one)
            expected = cluster().fits([wish], budget)
            assert (sorted(fits), fits.undecided) == (sorted(expected), expected.undecided)


async def test_closing_begins_no_work_that_was_still_to_come(
    queue: SchedulingQueue, background: RecordingBackground
) -> None:
    background_search, one = BackgroundSearch(queue, background), waiting(queue, "p")
    first = Counting(1)
    background_search.need(one, [first, *(Counting(None) for _ in range(4))])
    await gone_on(background_search, one)
    assert first.is_over
    sent = len(background.sent)
    await background_search.close()
    for _ in range(3):  # what ended is told, and would make room for the next
        await asyncio.sleep(0)
    assert len(background.sent) == sent
    assert "search" not in {task.get_name() for task in asyncio.all_tasks()}
