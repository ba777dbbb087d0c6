"""Waiting for what comes about in its own time.

Deadlines are for what never comes. A test that passes does not wait for one, so they are long: what takes a moment on a
quiet machine takes many seconds on a busy one. `DRAY_PATIENCE` says how many seconds they are, for who expects failures.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE_TURNS = 10  # a message through a socket needs one turn of the loop for each side
SECONDS = float(os.environ.get("DRAY_PATIENCE", "90"))


async def eventually(look: Callable[[], Awaitable[T]] | Callable[[], T], seconds: float = SECONDS) -> T:
    """Wait until looking gives something that counts as true, and return it; says what it gave last otherwise."""
    deadline = time.monotonic() + seconds
    while True:
        answer = look()
        found = await answer if isinstance(answer, Awaitable) else answer
        if found:
            return found
        assert time.monotonic() < deadline, _complaint(look, found, seconds)
        await asyncio.sleep(0.01)


def wait_until(look: Callable[[], T], seconds: float = SECONDS) -> T:
    """`eventually` for a test that has no event loop."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, _complaint(look, found, seconds)
        time.sleep(0.05)
    return found


async def quiet(seconds: float) -> None:
    """Let tasks of this event loop do all that they have to do now, and what their timers begin within `seconds`.

    Returns as soon as nothing is left to do, so a test can prove that something does not happen, also on a busy machine.
    Work of other threads and processes is not waited for.
    """
    loop: Any = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        await _idle(loop)
        next_timer = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=math.inf)
        if next_timer > until:
            return
        await asyncio.sleep(max(0.0, next_timer - loop.time()))


async def _idle(loop: Any) -> None:
    """Wait until nothing else has run in several turns of the event loop; asyncio has no public way to ask for this."""
    turns = 0
    while turns < _IDLE_TURNS:
        await asyncio.sleep(0)
        turns = 0 if loop._ready else turns + 1


async def linger(seconds: float) -> None:
    """Give threads and processes time to do something that they should not do."""
    await asyncio.sleep(seconds)
    await quiet(0)


async def within(work: Awaitable[T], seconds: float = SECONDS) -> T:
    """What something gives that comes to its end soon."""
    return await asyncio.wait_for(work, seconds)


def _complaint(look: Callable[[], object], found: object, seconds: float) -> str:
    return f"not so after {seconds:g} s: {getattr(look, '__qualname__', look)}: {found!r}"
