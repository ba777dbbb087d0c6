"""Work beside the event loop: users take turns at it, whoever asks for the most waits the longest."""

from __future__ import annotations

import asyncio
import threading

from dray.apiserver.wire.beside import beside


async def test_users_take_turns() -> None:
    done: list[str] = []
    begin = threading.Event()
    tasks = [asyncio.create_task(beside("greedy", begin.wait))]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(beside("greedy", done.append, f"greedy {number}")) for number in range(3)]
    tasks += [asyncio.create_task(beside("modest", done.append, "modest"))]
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*tasks)
    assert done == ["greedy 0", "modest", "greedy 1", "greedy 2"]


async def test_a_request_that_has_gone_leaves_its_turn_to_the_next() -> None:
    begin = threading.Event()
    first = asyncio.create_task(beside("a", begin.wait))
    await asyncio.sleep(0)
    gone, given, last = (asyncio.create_task(beside(user, str)) for user in "bcd")
    await asyncio.sleep(0)
    gone.cancel()
    begin.set()
    await first
    given.cancel()  # it has its turn, and does not take it
    assert await last == ""
    assert (await asyncio.gather(gone, given, return_exceptions=True)).count("") == 0


async def test_what_is_raised_is_raised_to_who_asked() -> None:
    results = await asyncio.gather(beside("a", int, "x"), beside("a", int, "1"), return_exceptions=True)
    assert (isinstance(results[0], ValueError), results[1]) == (True, 1)
