"""The one worker thread of a process, for pure steps that cannot be cut into slices, on large bodies above all.

More threads would not do more, since only one runs at a time, but would take the event loop's turns as often as they are.
Users take turns at the thread as they do on the loop (`turns`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from dray.background.turns import UsersInTurn

T = TypeVar("T")

# Objects that a computation may look at on the loop itself; for more it takes the thread.
ON_THE_LOOP = 500

_THREAD = ThreadPoolExecutor(1, "beside the event loop")


class _WaitingUsers:
    """Who waits for the thread, on one event loop."""

    def __init__(self) -> None:
        self._waiting = UsersInTurn()
        self._is_busy = False

    async def run(self, user: str, work: Callable[..., T], *arguments: object) -> T:
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
            if not turn.cancelled():  # it was given a turn that it does not take
                self._is_busy = self._waiting.give()
            raise


_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _WaitingUsers] = WeakKeyDictionary()


async def in_thread(user: str, work: Callable[..., T], *arguments: object) -> T:
    """The result of a step, computed by the worker thread in the turn of a user."""
    loop = asyncio.get_running_loop()
    queue = _QUEUES.get(loop)
    if queue is None:
        queue = _QUEUES[loop] = _WaitingUsers()
    return await queue.run(user, work, *arguments)


async def beside(size: int, compute: Callable[..., T], *arguments: object) -> T:
    """The result of a pure computation of a controller that looks at `size` objects: in the thread if they are many."""
    if size <= ON_THE_LOOP:
        return compute(*arguments)
    return await in_thread("controllers", compute, *arguments)
