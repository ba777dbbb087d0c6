"""The watchdog names whoever holds the event loop, and how long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest

from dray.apiserver.watchdog import Watchdog
from tests.apiserver.asking import HttpAsker
from tests.stalls import Stalls
from tests.waiting import eventually


@pytest.fixture
async def watchdog() -> AsyncIterator[Watchdog]:
    watchdog = Watchdog()
    yield watchdog
    watchdog.stop()


async def hold(seconds: float) -> None:
    """Work without a pause, in processor time."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


async def busy(until: asyncio.Event) -> None:
    """Work in short turns."""
    while not until.is_set():
        await hold(0.002)
        await asyncio.sleep(0)


async def test_a_long_turn_is_measured_and_its_culprit_named(
    watchdog: Watchdog, caplog: pytest.LogCaptureFixture
) -> None:
    async def looked() -> bool:
        await asyncio.create_task(hold(0.4), name="culprit")
        return "culprit" in caplog.text

    with caplog.at_level(logging.INFO, "dray.apiserver.watchdog"):
        await eventually(looked)
    assert "task culprit: " in caplog.text
    assert "test_watchdog.hold" in caplog.text
    assert watchdog.longest > 0.1


async def test_many_short_turns_are_not_a_long_one(watchdog: Watchdog) -> None:
    ended = asyncio.Event()
    task = asyncio.create_task(busy(ended))
    await eventually(lambda: watchdog.longest > 0)
    await asyncio.sleep(0.5)
    ended.set()
    await task
    assert watchdog.longest < 0.1


async def test_the_longest_turn_is_a_metric(http: HttpAsker) -> None:
    await hold(0.2)
    _, text = await http.text("/metrics")
    (line,) = (line for line in text.splitlines() if line.startswith("dray_loop_turn_seconds "))
    assert float(line.split()[1]) >= 0


def told(seconds: float, outermost: str) -> str:
    """What a test is told about one turn of its server."""
    stalls = Stalls()
    said = {"seconds": seconds, "outermost": outermost, "msg": f"held by {outermost}"}
    stalls.emit(logging.makeLogRecord(said))
    return stalls.complaint()


def test_a_test_whose_server_stalls_fails() -> None:
    assert "held by dray.scheduler" in told(1.5, "dray.scheduler")
    assert told(0.5, "dray.scheduler") == ""
    assert told(1.5, "tests.scheduler.test_scale") == ""


async def test_a_loop_that_works_until_the_end_can_stop_its_watchdog() -> None:
    for _ in range(10):
        watchdog = Watchdog()
        await hold(0.06)  # the watchdog is about to ask
        watchdog.stop()
