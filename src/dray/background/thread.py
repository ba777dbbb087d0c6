"""The single worker thread of a process. Runs pure steps that cannot be split, mostly steps on large bodies.

More threads would not be faster, because the interpreter runs one thread at a time, and they would interrupt the
event loop more often. Users take turns at the thread as they do on the loop (`turns`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from dray.background.turns import UsersInTurn

T = TypeVar("T")

# A computation on at most this many objects runs on the event loop.
ON_THE_LOOP = 500

_THREAD = ThreadPoolExecutor(1, "beside the event loop")


class _WaitingUsers:
    """Users of one event loop that wait for the thread, in turn."""

    def __init__(self) -> None:
        self._waiting = UsersInTurn()
        self._is_busy = False

    async def run(self, user: str, work: Callable[..., T], *arguments: object) -> T:
        """Run a function in the thread when it is the user's turn. Returns its result."""
        if self._is_busy:
            await self._wait(user)
        self._is_busy = True
        try:
            return await asyncio.get_running_loop().run_in_executor(_THREAD, work, *arguments)
        finally:
            self._is_busy = self._waiting.give()

    async def _wait(self, user: str) -> None:
        turn = self._waiting.add(user)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn was just given, so it passes to the next user
                self._is_busy = self._waiting.give()
            raise


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _WaitingUsers] = WeakKeyDictionary()


async def in_thread(user: str, work: Callable[..., T], *arguments: object) -> T:
    """Run a step in the worker thread, when it is the user's turn. Returns the result of the step."""
    loop = asyncio.get_running_loop()
    queue = _QUEUES.get(loop)
    if queue is None:
        queue = _QUEUES[loop] = _WaitingUsers()
    return await queue.run(user, work, *arguments)


async def in_thread_if_large(size: int, compute: Callable[..., T], *arguments: object) -> T:
    """Return the result of a controller's pure computation on `size` objects; uses the thread if there are many.

    Up to ON_THE_LOOP objects, it is computed at once on the event loop.
    """
    if size <= ON_THE_LOOP:
        return compute(*arguments)
    return await in_thread("controllers", compute, *arguments)
