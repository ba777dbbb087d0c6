"""A pace lets a burst through and then one turn at a time."""

from __future__ import annotations

import asyncio

from dray.client import ManualClock
from dray.controllers.poolstatus.pace import Pace


async def test_a_burst_passes_and_the_rest_waits_in_order() -> None:
    clock = ManualClock()
    pace = Pace(10, 2, clock)
    done: list[int] = []

    async def take(number: int) -> None:
        await pace.turn()
        done.append(number)

    tasks = [asyncio.create_task(take(number)) for number in range(5)]
    await clock.advance(0)
    assert done == [0, 1]
    await clock.advance(0.1)
    assert done == [0, 1, 2]
    await clock.advance(0.2)
    assert done == [0, 1, 2, 3, 4]
    await asyncio.gather(*tasks)


async def test_a_rest_fills_no_more_than_the_burst() -> None:
    clock = ManualClock()
    pace = Pace(10, 2, clock)
    await clock.advance(1000)
    await pace.turn()
    await pace.turn()
    third = asyncio.create_task(pace.turn())
    await clock.advance(0.05)
    assert not third.done()
    await clock.advance(0.06)
    assert third.done()
