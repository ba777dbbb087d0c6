"""Searches that take long, done in the worker process: which pod waits for which search.

A pod whose attempt needs such work waits here, in no place of the queue, until some of it is done; then the attempt goes
on. All work that it needs is done, in the order in which it is needed; a few works at a time are with the worker process.
Pods that ask for the same wait for the same work. Work for which nobody waits any more is given up. Left out: what work
there is (`dray.allocator`), the process (`dray.background`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

from dray.allocator import Work
from dray.background import Background, ComputationFailed
from dray.background.turns import take
from dray.core.queue import SchedulingQueue, Waiting
from dray.scheduler.tasks import Tasks

AHEAD = 2  # works of a pod that are with the worker process at a time, so that pods with many have no more turns
DEVICE = 2  # units of work on the event loop to write a device down for the worker process
GATHERED = 0.05  # seconds in which more work may be done before the attempt goes on, which looks at all nodes again
LOOK_AGAIN = 1.0  # seconds between two looks whether the pod still waits
SLOW_ATTEMPT_BACKOFF = 9  # an attempt that took too long waits nine times as long: others want nine tenths


class BackgroundSearch:
    """Runs the searches that pods need in the worker process."""

    def __init__(self, queue: SchedulingQueue, background: Background) -> None:
        self._queue = queue
        self._background = background
        self._under_way: dict[Work, asyncio.Task[None]] = {}
        self._needed: dict[str, dict[Work, Waiting]] = {}  # pod uid → the work that it needs, in order
        self._news: dict[str, asyncio.Event] = {}  # pod uid → some of its work is done
        self._tasks = Tasks()

    def need(self, waiting: Waiting, works: Sequence[Work]) -> None:
        """Set the works that a pod needs, in this order. Works that only it needed before are given up."""
        before = self._needed.pop(waiting.key, {})
        if works:
            self._needed[waiting.key] = dict.fromkeys(works, waiting)
            self._news.setdefault(waiting.key, asyncio.Event()).clear()
        self._give_up(before)
        self._begin()

    def wait(self, waiting: Waiting, go_on: Callable[[float], None]) -> None:
        """Call `go_on` with the seconds waited when some of the work that a pod needs is done."""
        self._tasks.start(self._wait(waiting, go_on))

    def forget(self, uid: str) -> None:
        """Drop the needs of a pod whose attempt is over."""
        if (event := self._news.pop(uid, None)) is not None:
            event.set()
        if (works := self._needed.pop(uid, None)) is not None:
            self._give_up(works)

    async def close(self) -> None:
        self._needed.clear()  # or what ends would make room for more work
        self._give_up([*self._under_way])
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self._tasks.cancel()

    def _begin(self) -> None:
        """Start the next works of each pod, `AHEAD` of them at a time."""
        for works in self._needed.values():
            for work, waiting in islice(works.items(), AHEAD):
                if work not in self._under_way:
                    work.is_in_worker_process = True
                    self._under_way[work] = task = asyncio.create_task(self._compute(work, waiting), name="search")
                    task.add_done_callback(partial(self._end, work))

    async def _compute(self, work: Work, waiting: Waiting) -> None:
        namespace, compute = waiting.pod.metadata.namespace, self._background.compute
        try:
            await take(DEVICE * work.size)
            work.accept(await compute(work.compute, "searches", namespace))
        except ComputationFailed:
            work.is_given_up = True

    def _end(self, work: Work, _: asyncio.Task[None]) -> None:
        work.is_in_worker_process = False
        del self._under_way[work]
        if work.is_over or work.is_given_up:
            for uid, works in self._needed.items():
                if works.pop(work, None) is not None:
                    self._news[uid].set()
        self._begin()

    def _give_up(self, works: Iterable[Work]) -> None:
        """Cancel works that no pod needs any more."""
        for work in works:
            if work in self._under_way and not any(work in needed for needed in self._needed.values()):
                self._under_way[work].cancel()

    async def _wait(self, waiting: Waiting, go_on: Callable[[float], None]) -> None:
        began = time.monotonic()
        news = self._news.get(waiting.key)
        while news is not None and not news.is_set() and self._queue.get(waiting.key) is waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await news.wait()
        if self._needed.get(waiting.key):
            await asyncio.sleep(GATHERED)
        if self._queue.get(waiting.key) is waiting:
            go_on(time.monotonic() - began)
        else:
            self.forget(waiting.key)
