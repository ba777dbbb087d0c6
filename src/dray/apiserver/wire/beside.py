"""Work that cannot be cut into slices and takes long, on large bodies above all: done beside the event loop, by one thread.

More threads would not do more, since only one runs at a time, but would take the event loop's turns as often as they are.
Users take turns at the thread as they do on the loop (`turns`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

from dray.apiserver.turns import UsersInTurn

T = TypeVar("T")

_THREAD = ThreadPoolExecutor(1, "beside")


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


async def beside(user: str, work: Callable[..., T], *arguments: object) -> T:
    """What the work comes to, some time later; `user` says whose turn it takes."""
    loop = asyncio.get_running_loop()
    queue = _QUEUES.get(loop)
    if queue is None:
        queue = _QUEUES[loop] = _WaitingUsers()
    return await queue.run(user, work, *arguments)
