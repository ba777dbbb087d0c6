"""Steps that lack something run again when they have it, wherever it is obtained, and come to the same results."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from dray.api.needs import KnownValues, Lacking, StepNeed
from dray.background import Background, ComputationFailed, Interrupt
from dray.background.resolver import Computing, Resolver, UnansweredQuestion
from tests.waiting import eventually


class Fetched(StepNeed):
    """A value that is fetched on the event loop."""

    def __init__(self, key: str) -> None:
        self.key = key


class Fetching:
    """Fetches values, all of them at the same time."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.let = asyncio.Event()

    async def fetch(self, need: Fetched) -> str:
        self.begun.append(str(need.key))
        await self.let.wait()
        return str(need.key).upper()


def doubled(number: int, interrupt: Interrupt) -> tuple[int, int]:
    return 2 * number, os.getpid()


def asking(answers: dict[Any, Any], interrupt: Interrupt) -> Any:
    """Asks for two values, one after the other, and adds them."""
    for question in ("one", "two"):
        if question not in answers:
            return UnansweredQuestion(question)
    return answers["one"] + answers["two"]


def fail(interrupt: Interrupt) -> None:
    raise ValueError("nobody thought of this")


@pytest.fixture
async def fetching() -> Fetching:
    return Fetching()


@pytest.fixture
async def resolver(fetching: Fetching) -> AsyncIterator[Resolver]:
    background = Background()
    yield Resolver(background, {Fetched: fetching.fetch})
    await background.close()


def looked_up(known: KnownValues, *needs: StepNeed) -> list[Any]:
    """A step that needs these values."""
    if missing := [need for need in needs if need.key not in known]:
        raise Lacking(known, *missing)
    return [known[need.key] for need in needs]


async def test_a_step_that_lacks_nothing_runs_once_and_at_once(resolver: Resolver) -> None:
    assert await resolver.run("user", False, len, "abc") == 3
    assert resolver.background.pid is None


async def test_what_steps_lack_is_obtained_at_the_same_time(resolver: Resolver, fetching: Fetching) -> None:
    running = asyncio.create_task(resolver.run("user", False, looked_up, {}, Fetched("a"), Fetched("b")))
    await eventually(lambda: len(fetching.begun) == 2)
    fetching.let.set()
    assert await running == ["A", "B"]


async def test_a_step_may_find_out_what_it_lacks_one_by_one(resolver: Resolver, fetching: Fetching) -> None:
    fetching.let.set()
    known: KnownValues = {}

    def step() -> str:
        first = looked_up(known, Fetched("a"))[0]
        return str(looked_up(known, Fetched(f"{first}b"))[0])

    assert await resolver.run("user", False, step) == "AB"
    assert fetching.begun == ["a", "Ab"]


async def test_computations_are_made_in_the_worker_process(resolver: Resolver) -> None:
    needs = [Computing(number, "numbers", partial(doubled, number)) for number in range(3)]
    found = await resolver.run("user", False, looked_up, {}, *needs)
    assert [number for number, _ in found] == [0, 2, 4]
    assert {process for _, process in found} == {resolver.background.pid}


async def test_a_computation_is_given_the_answers_that_it_asks_for(resolver: Resolver) -> None:
    asked: list[str] = []

    def answer(question: str) -> int:
        asked.append(question)
        return len(question)

    assert await resolver.run("user", False, looked_up, {}, Computing("sum", "numbers", asking, answer)) == [6]
    assert asked == ["one", "two"]


async def test_what_cannot_be_obtained_is_raised_and_nothing_goes_on(resolver: Resolver, fetching: Fetching) -> None:
    with pytest.raises(ComputationFailed, match="nobody thought of this"):
        await resolver.run("user", False, looked_up, {}, Computing("x", "numbers", fail), Fetched("a"))
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "Resolver._met" in repr(task.get_coro())]


async def test_a_large_step_runs_in_the_worker_thread_and_lacks_things_all_the_same(
    resolver: Resolver, fetching: Fetching
) -> None:
    fetching.let.set()
    known, threads = KnownValues(), set[str]()

    def step() -> list[Any]:
        threads.add(threading.current_thread().name)
        return looked_up(known, Fetched("a"))

    assert await resolver.run("user", True, step) == ["A"]
    assert threading.current_thread().name not in threads
    assert len(threads) == 1


async def test_a_step_that_does_not_find_what_it_asks_for_is_a_mistake(resolver: Resolver, fetching: Fetching) -> None:
    fetching.let.set()
    known: KnownValues = {}

    def step() -> None:
        raise Lacking(known, Fetched("a"))

    with pytest.raises(AssertionError, match="does not find"):
        await resolver.run("user", False, step)
