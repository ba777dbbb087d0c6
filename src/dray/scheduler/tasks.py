"""Limited number of background tasks for the scheduler's writes, all ended when the scheduler stops."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dray.background.turns import WRITE, take

WRITES_AT_ONCE = 20
T = TypeVar("T")


class Tasks:
    """Background tasks with a limit on their number."""

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._aside = 0  # number of tasks that only wait and do not count towards the limit
        self._room = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task. Returns the task."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._room.set()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Context manager: exempt the current task from the limit within the block, since it may wait for minutes."""
        self._aside += 1
        self._room.set()
        try:
            yield
        finally:
            self._aside -= 1

    async def make_room(self) -> None:
        """Wait until fewer tasks than the limit are running."""
        while len(self._running) - self._aside >= self._limit:
            self._room.clear()
            await self._room.wait()

    async def cancel(self) -> None:
        """Cancel all running tasks and wait until they have ended."""
        under_way = [*self._running]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def each(things: Collection[T], act: Callable[[T], Awaitable[object]], limit: int = WRITES_AT_ONCE) -> None:
    """Apply `act` to each thing, at most `limit` at once. After an error, starts no more and raises the first error
    at the end.
    """
    left, errors = iter(things), list[BaseException]()

    async def work() -> None:
        for thing in left:
            if errors:
                return
            await take(WRITE)
            try:
                await act(thing)
            except Exception as error:
                errors.append(error)

    await asyncio.gather(*(work() for _ in range(min(limit, len(things)))))
    if errors:
        raise errors[0]
