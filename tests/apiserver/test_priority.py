"""Work in the server's process lets requests from outside go first, but not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dray.apiserver.priority import RequestPriority
from tests.waiting import SECONDS


@asynccontextmanager
async def clients(act: Callable[[], None], pause: float = 0.0) -> AsyncIterator[None]:
    """Others who do something again and again."""

    async def again() -> None:
        while True:
            act()
            await asyncio.sleep(pause)

    crowd = asyncio.create_task(again())
    await asyncio.sleep(0)
    yield
    crowd.cancel()
    await asyncio.gather(crowd, return_exceptions=True)


async def kept(outside: RequestPriority) -> float:
    """How long somebody who gives way is kept."""
    began = time.perf_counter()
    await outside.give_way()
    return time.perf_counter() - began


async def test_turns_are_shorter_while_others_ask() -> None:
    outside = RequestPriority()
    undisturbed = await outside.give_way()
    outside.came += 1
    outside.answered += 1
    assert 0 < await outside.give_way() < undisturbed
    assert await outside.give_way() == undisturbed


async def test_requests_that_come_without_end_keep_nobody_for_ever() -> None:
    outside = RequestPriority()

    def ask() -> None:
        outside.came += 1
        outside.answered += 1

    async with clients(ask):
        assert 0.015 < await kept(outside) < 5


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any machine needs."""
    for name in ("_WAIT_AT_MOST", "_ANSWERED_WITHIN"):
        monkeypatch.setattr(f"dray.apiserver.priority.{name}", SECONDS)


@pytest.mark.usefixtures("patience")
async def test_requests_that_wait_for_the_disk_are_answered_first() -> None:
    outside = RequestPriority()
    outside.came = 3

    def answer() -> None:
        outside.answered += outside.answered < 3

    async with clients(answer, pause=0.002):
        await outside.give_way()
        assert outside.answered == 3


@pytest.mark.usefixtures("patience")
async def test_a_request_that_is_not_answered_keeps_nobody_twice() -> None:
    outside = RequestPriority()
    outside.came = 1
    for is_kept in (True, False, False):
        turn = asyncio.create_task(outside.give_way())
        for _ in range(4):  # passes of the event loop
            await asyncio.sleep(0)
        assert turn.done() is not is_kept
        turn.cancel()
