"""Work beside the event loop: users take turns at it, whoever asks for the most waits the longest."""

from __future__ import annotations

import asyncio
import threading

from dray.background.thread import in_thread


async def test_users_take_turns() -> None:
    done: list[str] = []
    begin = threading.Event()
    tasks = [asyncio.create_task(in_thread("greedy", begin.wait))]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(in_thread("greedy", done.append, f"greedy {number}")) for number in range(3)]
    tasks += [asyncio.create_task(in_thread("modest", done.append, "modest"))]
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*tasks)
    assert done == ["greedy 0", "modest", "greedy 1", "greedy 2"]


async def test_a_request_that_has_gone_leaves_its_turn_to_the_next() -> None:
    begin = threading.Event()
    first = asyncio.create_task(in_thread("a", begin.wait))
    await asyncio.sleep(0)
    gone, given, last = (asyncio.create_task(in_thread(user, str)) for user in "bcd")
    await asyncio.sleep(0)
    gone.cancel()
    begin.set()
    await first
    given.cancel()  # it has its turn, and does not take it
    assert await last == ""
    assert (await asyncio.gather(gone, given, return_exceptions=True)).count("") == 0


async def test_what_is_raised_is_raised_to_who_asked() -> None:
    results = await asyncio.gather(in_thread("a", int, "x"), in_thread("a", int, "1"), return_exceptions=True)
    assert (isinstance(results[0], ValueError), results[1]) == (True, 1)
