"""Searches that take long, done beside the event loop: who waits for which work, and for how long.

A pod whose attempt needs such work waits here, in no place of the queue, until some of it is done or the attempt's time
is up; then the attempt goes on. Pods that ask for the same wait for the same work. Work for which nobody waits any more
is given up. Left out: what work there is (`dray.allocator`), the process (`dray.background`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from dray.allocator import Work
from dray.background import Background, BackgroundJob
from dray.core.queue import SchedulingQueue, Waiting
from dray.scheduler.tasks import Tasks

BEGINNING = 0.005  # seconds in which work may be begun: 6 µs are needed to write down a device
GATHERED = 0.05  # seconds in which more work may be done before the attempt goes on, which looks at all nodes again
LOOK_AGAIN = 1.0  # seconds between two looks whether the pod still waits


class Thinker:
    """Lets work be done for pods."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._background = Background()
        self._begun: dict[Work, BackgroundJob] = {}
        self._waited_for: dict[str, frozenset[Work]] = {}  # pod uid → the work that it needs
        self._tasks = Tasks()

    def need(self, waiting: Waiting, works: Sequence[Work]) -> None:
        """Let this work be done for a pod, as much of it as can be begun soon, and no other that it needed before."""
        ends = time.monotonic() + BEGINNING
        needed = self._begun.keys() & works
        for work in works:
            if needed and time.monotonic() > ends:
                break
            if work not in needed:
                self._begin(work)
                needed.add(work)
        before = self._waited_for.get(waiting.key, frozenset())
        self._waited_for[waiting.key] = frozenset(needed)
        self._give_up(before.difference(needed))

    def wait(self, waiting: Waiting, seconds: float | None, go_on: Callable[[float], None]) -> None:
        """Call back, with the seconds that it took, when some of the work that a pod needs is done, or time is up."""
        self._tasks.start(self._wait(waiting, seconds, go_on))

    def forget(self, uid: str) -> None:
        """The pod's attempt is over."""
        if works := self._waited_for.pop(uid, None):
            self._give_up(works)

    async def close(self) -> None:
        await self._tasks.cancel()
        await self._background.close()

    def _begin(self, work: Work) -> None:
        job = self._begun[work] = self._background.start(work)
        job.done.add_done_callback(partial(self._end, work))
        work.is_elsewhere = True

    def _end(self, work: Work, _: asyncio.Future[bool]) -> None:
        work.is_elsewhere = False
        del self._begun[work]

    def _give_up(self, works: frozenset[Work]) -> None:
        """Give up the work that nobody needs any more."""
        for work in works.intersection(self._begun).difference(*self._waited_for.values()):
            self._begun[work].cancel()

    async def _wait(self, waiting: Waiting, seconds: float | None, go_on: Callable[[float], None]) -> None:
        began = time.monotonic()
        while self._queue.get(waiting.key) is waiting:
            if not self._background.is_ready:
                began = time.monotonic()  # that the process takes its time to start is not the pod's fault
            needed = self._waited_for.get(waiting.key, frozenset())
            futures = [self._begun[work].done for work in needed if work in self._begun]
            left = LOOK_AGAIN if seconds is None else min(LOOK_AGAIN, began + seconds - time.monotonic())
            if len(futures) < len(needed) or left <= 0:
                go_on(time.monotonic() - began)
                return
            await asyncio.wait(futures, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(min(GATHERED, left))
        self.forget(waiting.key)
