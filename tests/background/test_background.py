"""Computations in the other process: they take turns, bring home what they found, and outlive the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.background import Background, Interrupt


class Counting:
    """Counts up to a number, or for ever."""

    def __init__(self, upto: int | None) -> None:
        self.upto = upto
        self.count = 0
        self.process = 0

    def run(self, interrupt: Interrupt) -> bool:
        self.process = os.getpid()
        while self.count != self.upto:
            self.count += 1
            if interrupt():
                return False
        return True

    def found(self) -> tuple[int, int]:
        return self.count, self.process

    def accept(self, found: tuple[int, int]) -> None:
        self.count, self.process = found


class Failing(Counting):
    def run(self, interrupt: Interrupt) -> bool:
        raise ValueError("nobody thought of this")


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    made = Background()
    yield made
    await made.close()


async def done(computation: Any, background: Background) -> bool:
    return await asyncio.wait_for(background.start(computation).done, 60)


async def test_what_is_found_in_the_other_process_comes_home(background: Background) -> None:
    counting = Counting(1000)
    assert await done(counting, background) is True
    assert counting.count == 1000
    assert counting.process not in (0, os.getpid())


async def test_a_short_computation_does_not_wait_for_a_long_one(background: Background) -> None:
    endless = background.start(Counting(None))
    assert await done(Counting(10), background) is True
    assert not endless.done.done()


async def test_a_cancelled_computation_brings_home_what_it_found(background: Background) -> None:
    counting = Counting(None)
    endless = background.start(counting)
    await done(Counting(10), background)
    endless.cancel()
    assert await asyncio.wait_for(endless.done, 60) is False
    assert counting.count > 0


async def test_one_that_fails_is_over_and_the_others_go_on(background: Background) -> None:
    assert await done(Failing(5), background) is True
    assert await done(Counting(5), background) is True


async def test_if_the_process_ends_the_next_computation_gets_a_new_one(background: Background) -> None:
    first = Counting(5)
    await done(first, background)
    endless = background.start(Counting(None))
    os.kill(first.process, signal.SIGKILL)
    assert await asyncio.wait_for(endless.done, 60) is False
    second = Counting(5)
    assert await done(second, background) is True
    assert second.process != first.process


async def test_closing_ends_the_process() -> None:
    background = Background()
    counting = Counting(5)
    await done(counting, background)
    endless = background.start(Counting(None))
    await background.close()
    assert endless.done.result() is False
    with pytest.raises(ProcessLookupError):
        os.kill(counting.process, 0)


async def test_what_cannot_be_sent_says_so_at_once(background: Background) -> None:
    counting = Counting(5)
    counting.upto = lambda: 5  # type: ignore[assignment]  # nothing that can be pickled
    with pytest.raises(Exception, match="pickle"):
        background.start(counting)
