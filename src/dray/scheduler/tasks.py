"""Writes that run beside the scheduler's decisions: at most so many at once, and none left behind at the end."""

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
    """Tasks in the background."""

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._aside = 0  # those of them that wait for others and do not count
        self._room = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._room.set()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within it, the running task does not count: it waits for others, for minutes perhaps."""
        self._aside += 1
        self._room.set()
        try:
            yield
        finally:
            self._aside -= 1

    async def make_room(self) -> None:
        """Wait until fewer than the limit are at work."""
        while len(self._running) - self._aside >= self._limit:
            self._room.clear()
            await self._room.wait()

    async def cancel(self) -> None:
        """Break off what is under way; it gives back what it can."""
        under_way = [*self._running]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def each(things: Collection[T], act: Callable[[T], Awaitable[object]], limit: int = WRITES_AT_ONCE) -> None:
    """Do something with each thing, several at once; the first error ends it when what was begun is over."""
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
