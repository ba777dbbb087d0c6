"""Computations of the worker process: they take turns, their results come home, and they outlive the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dray.background import Background, ComputationFailed, Interrupt
from dray.background.background import TRIES
from dray.background.rotation import AT_ONCE, AT_ONCE_OF_USER
from tests.waiting import eventually


def count(upto: int | None, interrupt: Interrupt) -> tuple[int, int]:
    """Counts up to a number, or until told to stop. Returns the process, too."""
    found = 0
    while found != upto:
        found += 1
        if interrupt():
            break
    return found, os.getpid()


def fail(interrupt: Interrupt) -> None:
    raise ValueError("nobody thought of this")


def end_process(interrupt: Interrupt) -> None:
    os._exit(1)


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    made = Background()
    yield made
    await made.close()


async def counted(background: Background, upto: int, kind: str = "counts", user: str = "") -> tuple[int, int]:
    async with asyncio.timeout(60):
        return await background.compute(partial(count, upto), kind, user)


def endless(background: Background, kind: str = "counts", user: str = "") -> asyncio.Task[Any]:
    return asyncio.create_task(background.compute(partial(count, None), kind, user))


async def test_the_result_of_the_other_process_comes_home(background: Background) -> None:
    found, process = await counted(background, 1000)
    assert found == 1000
    assert process not in (0, os.getpid())
    assert process == background.pid


async def test_a_short_computation_does_not_wait_for_a_long_one(background: Background) -> None:
    long = endless(background)
    assert (await counted(background, 10))[0] == 10
    assert not long.done()


async def test_neither_users_nor_kinds_keep_each_other_out(background: Background) -> None:
    """More endless computations than may be under way delay neither other users nor other kinds."""
    greedy = ("greedy", "voracious", "insatiable")
    tasks = [endless(background, user=user) for user in greedy for _ in range(AT_ONCE_OF_USER + 1)]
    assert len(tasks) > AT_ONCE
    await counted(
        background, 1_000_000, kind="others"
    )  # takes more turns than it takes to begin all that may be under way
    assert (await counted(background, 10, user="modest"))[0] == 10
    assert (await counted(background, 10, kind="others", user="greedy"))[0] == 10
    assert not any(task.done() for task in tasks)


async def test_a_long_search_delays_a_selector_check_by_less_than_50_ms(background: Background) -> None:
    """Measured as processor time of the worker process: how long the machine lets it wait is not its doing."""
    _, process = await counted(background, 1)

    def used() -> float:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9

    async def seconds() -> float:
        began = used()
        assert (await counted(background, 100, kind="selectors"))[1] == process
        return used() - began

    alone = sorted([await seconds() for _ in range(15)])
    search = endless(background, kind="searches")
    beside = sorted([await seconds() for _ in range(15)])
    assert not search.done()
    assert beside[len(beside) // 2] - alone[len(alone) // 2] < 0.05


async def test_computations_of_one_job_are_done_in_order(background: Background) -> None:
    done: list[int] = []

    async def one(number: int, upto: int) -> None:
        await background.compute(partial(count, upto), "counts", job="in order")
        done.append(number)

    await asyncio.gather(*(one(number, upto) for number, upto in enumerate((50_000, 10_000, 10, 1))))
    assert done == [0, 1, 2, 3]


async def test_a_cancelled_computation_makes_room(background: Background) -> None:
    tasks = [endless(background) for _ in range(AT_ONCE_OF_USER)]
    await counted(background, 1, user="other")
    waiting = asyncio.create_task(counted(background, 10))
    for task in tasks:
        task.cancel()
    assert (await waiting)[0] == 10


async def test_one_that_fails_says_why_and_the_others_go_on(background: Background) -> None:
    with pytest.raises(ComputationFailed, match="ValueError: nobody thought of this"):
        await background.compute(fail, "counts")
    assert (await counted(background, 5))[0] == 5


async def test_what_was_computed_when_the_process_ended_is_computed_in_a_new_one(background: Background) -> None:
    _, first = await counted(background, 5)
    lost = asyncio.create_task(counted(background, 200_000))
    await counted(background, 5)
    os.kill(first, signal.SIGKILL)
    found, second = await lost
    assert found == 200_000
    assert second != first


async def test_a_computation_that_ends_its_process_time_and_again_has_failed(background: Background) -> None:
    with pytest.raises(ComputationFailed, match="ended"):
        await background.compute(end_process, "counts")
    assert TRIES > 1
    assert (await counted(background, 5))[0] == 5


async def test_closing_ends_the_process() -> None:
    background = Background()
    _, process = await counted(background, 5)
    long = endless(background)
    await asyncio.sleep(0)
    await background.close()
    with pytest.raises(ComputationFailed):
        await long
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_a_process_without_computations_ends(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.background.background.IDLE_SECONDS", 0.0)
    await counted(background, 5)
    await eventually(lambda: background.pid is None)
    assert (await counted(background, 5))[0] == 5


async def test_what_cannot_be_sent_says_so_at_once(background: Background) -> None:
    unknown: Callable[..., Any] = lambda interrupt: 5  # noqa: E731 (nothing that can be pickled)
    with pytest.raises(Exception, match="pickle"):
        await background.compute(unknown, "counts")
    assert (await counted(background, 5))[0] == 5
