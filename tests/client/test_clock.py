"""Clocks, timestamps and backoff."""

import asyncio

import pytest

from dray.api.times import micro_timestamp, parse_timestamp, timestamp
from dray.client import ManualClock, SystemClock
from dray.client.backoff import Backoff
from tests.waiting import within


async def test_a_manual_clock_wakes_sleepers_in_order_and_only_when_due() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    start = clock.monotonic()
    tasks = [asyncio.create_task(sleeper(s)) for s in (3, 1, 2)]
    await clock.advance(2.5)
    assert woken == [(1, start + 1), (2, start + 2)]
    await clock.advance(0.5)
    assert woken[-1] == (3, start + 3)
    await asyncio.gather(*tasks)


async def test_a_cancelled_timer_does_not_run() -> None:
    clock, ran = ManualClock(), []
    timer = clock.call_later(1, lambda: ran.append(1))
    timer.cancel()
    await clock.advance(2)
    assert ran == []


async def test_the_system_clock_runs_timers() -> None:
    clock, ran = SystemClock(), asyncio.Event()
    before = clock.monotonic()
    clock.call_later(0.01, ran.set)
    await within(ran.wait())
    assert clock.monotonic() - before >= 0.009


def test_timestamps_are_utc_and_come_back() -> None:
    assert timestamp(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert micro_timestamp(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert parse_timestamp("2023-11-14T22:13:20.250000Z") == 1_700_000_000.25


@pytest.mark.parametrize(("jitter", "expected"), [(0.0, [1, 2, 4, 5, 5]), (1.0, [1.5, 3, 6, 7.5, 7.5])])
def test_backoff_grows_to_its_limit_and_starts_over(jitter: float, expected: list[float]) -> None:
    backoff = Backoff(ManualClock(), initial=1, limit=5, jitter=lambda: jitter)
    assert [backoff.next_delay() for _ in expected] == expected
    backoff.reset()
    assert backoff.next_delay() == expected[0]
