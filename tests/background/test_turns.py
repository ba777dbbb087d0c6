"""The share of the event loop that parts of one process get: counted, not measured."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from dray.background.thread import ON_THE_LOOP, in_thread_if_large
from dray.background.turns import ALLOWANCE, WRITE, in_turns, take
from tests.waiting import within


class Rounds:
    """The number of the event loop's round, while the test runs."""

    def __init__(self) -> None:
        self.number = 0
        self._tick()

    def _tick(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._tick)


async def test_a_round_of_the_loop_has_room_for_a_bounded_number_of_writes() -> None:
    rounds, done = Rounds(), Counter[int]()

    async def work() -> None:
        for _ in range(10):
            await take(WRITE)
            done[rounds.number] += 1

    await within(asyncio.gather(*(work() for _ in range(50))))
    assert sum(done.values()) == 500
    assert max(done.values()) <= 2 * ALLOWANCE // WRITE  # those who need not wait, and those who did


async def test_those_who_wait_go_on_in_the_order_in_which_they_came() -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        await take(ALLOWANCE)
        order.append(number)

    await within(asyncio.gather(*map(work, range(20))))
    assert order == [*range(20)]


async def test_a_latecomer_with_little_to_do_does_not_overtake() -> None:
    order: list[str] = []

    async def work(name: str, units: int) -> None:
        await take(units)
        order.append(name)

    await within(asyncio.gather(work("before", ALLOWANCE - 50), work("first", WRITE), work("late", 1)))
    assert order == ["before", "first", "late"]


async def test_whoever_is_cancelled_while_waiting_keeps_nobody_waiting() -> None:
    tasks = [asyncio.create_task(take(ALLOWANCE)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    await within(tasks[4])


async def test_work_larger_than_the_allowance_gets_a_round_of_its_own() -> None:
    await within(take(10 * ALLOWANCE))
    await within(take(10 * ALLOWANCE))


async def test_many_items_come_in_parts_with_rounds_of_the_loop_between_them() -> None:
    rounds, parts = Rounds(), Counter[int]()
    seen: list[int] = []
    async for some in in_turns(range(10 * ALLOWANCE), 2):
        parts[rounds.number] += len(some)
        seen += some
    assert seen == [*range(10 * ALLOWANCE)]
    assert max(parts.values()) * 2 <= 2 * ALLOWANCE


async def test_a_computation_over_many_objects_leaves_the_thread_of_the_loop() -> None:
    assert await in_thread_if_large(ON_THE_LOOP, threading.get_ident) == threading.get_ident()
    assert await in_thread_if_large(ON_THE_LOOP + 1, threading.get_ident) != threading.get_ident()
