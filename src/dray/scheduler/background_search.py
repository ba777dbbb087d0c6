"""Long device searches, run in the worker process on behalf of waiting pods.

A pod whose attempt needs a long search waits here, outside all places of the queue, until part of the work is done;
then the attempt continues. All work that a pod needs is done in the given order, a few works at a time. Pods with
equal requests wait for the same work. Work that no pod needs any longer is cancelled. Left out: what work there is
(`dray.allocator`) and the worker process (`dray.background`).
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

# works of one pod sent to the worker process at a time, so that a pod with many works gets no more turns than others
AHEAD = 2
DEVICE = 2  # work units on the event loop for encoding one device for the worker process
# seconds to gather further results before the attempt continues, since it then examines all nodes again
GATHERED = 0.05
LOOK_AGAIN = 1.0  # seconds between two checks whether the pod still waits
# a slow attempt backs off for nine times its duration, which leaves nine tenths of the time to other pods
SLOW_ATTEMPT_BACKOFF = 9


class BackgroundSearch:
    """Runs the device searches of waiting pods in the worker process."""

    def __init__(self, queue: SchedulingQueue, background: Background) -> None:
        self._queue = queue
        self._background = background
        self._under_way: dict[Work, asyncio.Task[None]] = {}
        self._needed: dict[str, dict[Work, Waiting]] = {}  # pod uid → the work that the pod needs, in order
        self._news: dict[str, asyncio.Event] = {}  # pod uid → event that some of the pod's work is done
        self._tasks = Tasks()

    def need(self, waiting: Waiting, works: Sequence[Work]) -> None:
        """Set the works that a pod needs, in this order. Cancels earlier works that no pod needs any longer.

        An empty `works` means that the pod needs none.
        """
        before = self._needed.pop(waiting.key, {})
        if works:
            self._needed[waiting.key] = dict.fromkeys(works, waiting)
            self._news.setdefault(waiting.key, asyncio.Event()).clear()
        self._give_up(before)
        self._begin()

    def wait(self, waiting: Waiting, go_on: Callable[[float], None]) -> None:
        """Call `go_on` with the seconds waited as soon as some of the work that a pod needs is done."""
        self._tasks.start(self._wait(waiting, go_on))

    def forget(self, uid: str) -> None:
        """Drop the needs of a pod whose attempt has ended."""
        if (event := self._news.pop(uid, None)) is not None:
            event.set()
        if (works := self._needed.pop(uid, None)) is not None:
            self._give_up(works)

    async def close(self) -> None:
        self._needed.clear()  # otherwise ended works would start further ones
        self._give_up([*self._under_way])
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self._tasks.cancel()

    def _begin(self) -> None:
        """Start the next works of each pod, at most `AHEAD` at a time per pod."""
        for works in self._needed.values():
            for work, waiting in islice(works.items(), AHEAD):
                if work not in self._under_way:
                    work.is_in_worker_process = True
                    self._under_way[work] = task = asyncio.create_task(self._compute(work, waiting), name="search")
                    task.add_done_callback(partial(self._end, work))

    async def _compute(self, work: Work, waiting: Waiting) -> None:
        """Compute a work in the worker process and pass it the result.

        Marks the work as given up if the computation fails.
        """
        namespace, compute = waiting.pod.metadata.namespace, self._background.compute
        try:
            await take(DEVICE * work.size)
            work.accept(await compute(work.compute, "searches", namespace))
        except ComputationFailed:
            work.is_given_up = True

    def _end(self, work: Work, _: asyncio.Task[None]) -> None:
        """Remove an ended work, notify the pods that need it, and start further works."""
        work.is_in_worker_process = False
        del self._under_way[work]
        if work.is_over or work.is_given_up:
            for uid, works in self._needed.items():
                if works.pop(work, None) is not None:
                    self._news[uid].set()
        self._begin()

    def _give_up(self, works: Iterable[Work]) -> None:
        """Cancel those of the works that no pod needs any longer."""
        for work in works:
            if work in self._under_way and not any(work in needed for needed in self._needed.values()):
                self._under_way[work].cancel()

    async def _wait(self, waiting: Waiting, go_on: Callable[[float], None]) -> None:
        """Wait until some of a pod's work is done, then call `go_on`; forget the pod if it has left the queue."""
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
