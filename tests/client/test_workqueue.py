"""The work queue: each key once, one worker a key, growing delays after failures."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from dray.client import ManualClock, QueueClosed, WorkQueue
from dray.client.clock import settle
from tests.waiting import within


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> WorkQueue[str]:
    return WorkQueue("test", clock=clock, first_retry=1.0, last_retry=5.0)


async def test_a_key_added_twice_is_handled_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_handled_comes_back_after_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_get_waits_for_a_key(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done()
    queue.add("a")
    assert await waiting == "a"


async def test_each_waiting_worker_gets_its_own_key(queue: WorkQueue[str]) -> None:
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    for key in "abc":
        queue.add(key)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]


async def test_a_wake_up_lost_to_a_cancelled_worker_reaches_another(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    assert await within(second) == "a"


async def test_a_delayed_key_comes_when_due_and_the_earliest_wish_holds(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 4)
    queue.add_after("a", 7)
    await clock.advance(3.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(100)
    assert len(queue) == 0


async def test_failures_double_the_delay_up_to_the_limit_and_forget_starts_over(
    queue: WorkQueue[str], clock: ManualClock
) -> None:
    for expected in (1, 2, 4, 5, 5):
        queue.add_rate_limited("a")
        await clock.advance(expected - 0.01)
        assert len(queue) == 0
        await clock.advance(0.02)
        queue.done(await queue.get())
    assert queue.failures("a") == 5
    queue.forget("a")
    queue.add_rate_limited("a")
    await clock.advance(1.01)
    assert len(queue) == 1


async def test_the_success_of_one_key_leaves_the_failures_of_others(queue: WorkQueue[str]) -> None:
    for key in ("bad", "bad", "good"):
        queue.add_rate_limited(key)
    queue.forget("good")
    assert (queue.failures("bad"), queue.failures("good")) == (2, 0)


async def test_a_key_that_fails_for_weeks_does_not_overflow(queue: WorkQueue[str]) -> None:
    for _ in range(3000):
        queue.add_rate_limited("a")
    assert queue.failures("a") == 3000


async def test_closing_ends_waiting_workers_after_the_last_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("b", 5)
    queue.close()
    queue.add("c")
    assert await queue.get() == "a"
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_closing_wakes_workers_that_wait(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await settle()
    queue.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed, QueueClosed]


def _metric(name: str, queue: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"name": queue})


async def test_metrics_tell_depth_adds_retries_and_time(clock: ManualClock) -> None:
    queue: WorkQueue[str] = WorkQueue("measured", clock=clock)
    queue.add("a")
    queue.add("b")
    assert _metric("workqueue_depth", "measured") == 2
    assert _metric("workqueue_adds_total", "measured") == 2
    await clock.advance(3)
    await queue.get()
    await clock.advance(2)
    assert _metric("workqueue_queue_duration_seconds_sum", "measured") == 3
    assert _metric("workqueue_unfinished_work_seconds", "measured") == 2
    assert _metric("workqueue_longest_running_processor_seconds", "measured") == 2
    queue.done("a")
    assert _metric("workqueue_work_duration_seconds_sum", "measured") == 2
    queue.add_rate_limited("a")
    assert _metric("workqueue_retries_total", "measured") == 1


@given(st.lists(st.sampled_from([("add", "a"), ("add", "b"), ("get", ""), ("done", "a"), ("done", "b")]), max_size=60))
def test_no_added_key_is_lost_and_none_is_handled_twice_at_once(steps: list[tuple[str, str]]) -> None:
    async def walk() -> None:
        queue: WorkQueue[str] = WorkQueue("walk", clock=ManualClock())
        wanted: set[str] = set()
        running: set[str] = set()
        for verb, key in steps:
            if verb == "add":
                queue.add(key)
                wanted.add(key)
            elif verb == "get" and len(queue):
                got = await queue.get()
                assert got in wanted
                assert got not in running
                wanted.discard(got)
                running.add(got)
            elif verb == "done" and key in running:
                queue.done(key)
                running.discard(key)
        assert len(queue) == len(wanted - running)
        for key in running:
            queue.done(key)
        assert len(queue) == len(wanted)

    asyncio.run(walk())


def test_keys_may_be_any_hashable(clock: ManualClock) -> None:
    queue: WorkQueue[tuple[str, Any]] = WorkQueue("tuples", clock=clock)
    queue.add(("a", 1))
    queue.add(("a", 1))
    assert len(queue) == 1
