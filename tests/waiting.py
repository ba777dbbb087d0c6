"""Waiting for what comes about in its own time.

Deadlines are for what never comes. A test that passes does not wait for one, so they are long: what takes a moment on a
quiet machine takes many seconds on a busy one. `DRAY_PATIENCE` says how many seconds they are, for who expects failures.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = float(os.environ.get("DRAY_PATIENCE", "60"))


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
    """Give others time to do something that they should not do: some on the clock, and many turns of the event loop."""
    await asyncio.sleep(seconds)
    for _ in range(300):
        await asyncio.sleep(0)


async def within(work: Awaitable[T], seconds: float = SECONDS) -> T:
    """What something gives that comes to its end soon."""
    return await asyncio.wait_for(work, seconds)


def _complaint(look: Callable[[], object], found: object, seconds: float) -> str:
    return f"not so after {seconds:g} s: {getattr(look, '__qualname__', look)}: {found!r}"
