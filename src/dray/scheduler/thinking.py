"""Searches that take long, done beside the event loop: who waits for which work.

A pod whose attempt needs such work waits here, in no place of the queue, until some of it is done; then the attempt goes
on. All work that it needs is done, in the order in which it is needed; a few works at a time are with the other process.
Pods that ask for the same wait for the same work. Work for which nobody waits any more is given up. Left out: what work
there is (`dray.allocator`), the process (`dray.background`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

from dray.allocator import Work
from dray.background import Background, BackgroundJob
from dray.core.queue import SchedulingQueue, Waiting
from dray.scheduler.tasks import Tasks

AHEAD = 2  # works of a pod that are with the other process at a time, so that pods with many have no more turns
WRITTEN = 512  # devices that are written down in one turn of the event loop, at 6 µs each; one work is, however large
TRIES = 3  # times that a work may be lost with the process before it counts as one that cannot be done
GATHERED = 0.05  # seconds in which more work may be done before the attempt goes on, which looks at all nodes again
LOOK_AGAIN = 1.0  # seconds between two looks whether the pod still waits


class Thinker:
    """Lets work be done for pods."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._background = Background()
        self._begun: dict[Work, BackgroundJob] = {}
        self._needed: dict[str, dict[Work, None]] = {}  # pod uid → the work that it needs, in order
        self._lost: dict[Work, int] = {}  # how often a work came back as it went, though somebody needs it
        self._cancelled: set[Work] = set()
        self._news: dict[str, asyncio.Event] = {}  # pod uid → some of its work is done
        self._tasks = Tasks()
        self._sending: asyncio.Handle | None = None

    def need(self, waiting: Waiting, works: Sequence[Work]) -> None:
        """Let all of this work be done for a pod, in this order, and no other that it needed before."""
        before = self._needed.pop(waiting.key, {})
        if works:
            self._needed[waiting.key] = dict.fromkeys(works)
            self._news.setdefault(waiting.key, asyncio.Event()).clear()
        self._give_up([work for work in before if work not in works])
        self._send()

    def wait(self, waiting: Waiting, go_on: Callable[[float], None]) -> None:
        """Call back, with the seconds that it took, when some of the work that a pod needs is done."""
        self._tasks.start(self._wait(waiting, go_on))

    def forget(self, uid: str) -> None:
        """The pod's attempt is over."""
        if (event := self._news.pop(uid, None)) is not None:
            event.set()
        if (works := self._needed.pop(uid, None)) is not None:
            self._give_up([*works])

    async def close(self) -> None:
        self._needed.clear()  # or what ends with the process would make room for more work
        if self._sending is not None:
            self._sending.cancel()
        await self._tasks.cancel()
        await self._background.close()

    def _send(self) -> None:
        """Begin works, pod by pod, as many as one turn of the event loop has room for; the next turn goes on."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        written = 0
        for work in self._next():
            if written and written + work.size > WRITTEN:
                self._sending = asyncio.get_running_loop().call_soon(self._send)
                return
            self._begin(work)
            written += work.size

    def _next(self) -> Iterator[Work]:
        """The works to begin: of each pod those that come next, up to a few that are not done."""
        for works in self._needed.values():
            yield from (work for work in islice(works, AHEAD) if work not in self._begun)

    def _begin(self, work: Work) -> None:
        job = self._begun[work] = self._background.start(work)
        job.done.add_done_callback(partial(self._end, work, work.steps))
        work.is_elsewhere = True

    def _end(self, work: Work, steps_before: int, _: asyncio.Future[bool]) -> None:
        work.is_elsewhere = False
        del self._begun[work]
        is_cancelled = work in self._cancelled
        self._cancelled.discard(work)
        if not work.is_over and not is_cancelled and work.steps == steps_before:
            lost = self._lost[work] = self._lost.get(work, 0) + 1
            work.is_given_up = lost >= TRIES
        if work.is_over or work.is_given_up:
            self._lost.pop(work, None)
            for uid, works in self._needed.items():
                if work in works:
                    del works[work]
                    self._news[uid].set()
        self._send()

    def _give_up(self, works: Sequence[Work]) -> None:
        """Give up the work that nobody needs any more."""
        for work in works:
            if not any(work in needed for needed in self._needed.values()):
                self._lost.pop(work, None)
                if work in self._begun:
                    self._cancelled.add(work)
                    self._begun[work].cancel()

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
