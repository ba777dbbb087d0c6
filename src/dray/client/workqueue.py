"""Work queue: each key is queued at most once and handled by one worker at a time; failures are retried with
growing delays.

A key that is added while it is being handled is queued again afterwards, so no change is lost and no key is
handled twice at once. The queue holds keys; workers read the current state. `controller` has the workers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dray.client.clock import Clock, SystemClock, Timer
from dray.client.metrics import queue_metrics

K = TypeVar("K", bound=Hashable)

# As in client-go: the first retry is nearly immediate, later ones are up to 1,000 seconds apart.
_FIRST_RETRY_SECONDS = 0.005
_LAST_RETRY_SECONDS = 1000.0


class QueueClosed(Exception):
    """The queue is closed and empty."""


class WorkQueue(Generic[K]):
    """A queue of keys, for use within one event loop.

    `get` a key, handle it, then call `done(key)`; after success also `forget(key)`, after a failure
    `add_rate_limited(key)`.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        first_retry: float = _FIRST_RETRY_SECONDS,
        last_retry: float = _LAST_RETRY_SECONDS,
    ) -> None:
        self.name = name
        self._clock = clock or SystemClock()
        self._first_retry = first_retry
        self._last_retry = last_retry
        self._queue: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # key to be handled → time it was added
        self._processing: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._woken = False  # whether a woken worker has not run yet
        self._closed = False
        self._metrics = queue_metrics(name, self._depth, self._running_seconds)

    def __len__(self) -> int:
        """Return the number of keys that wait to be handled now."""
        return len(self._queue)

    def add(self, key: K) -> None:
        """Queue a key to be handled once, as soon as a worker is free.

        Nothing happens if the key waits already or the queue is closed. A key that is being handled is queued again
        when its worker is done.
        """
        if self._closed or key in self._dirty:
            return
        self._metrics.added += 1
        self._dirty[key] = self._clock.monotonic()
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after a delay in seconds; of several delays for the same key, the earliest applies.

        Without a delay (0 or less), the key is added at once. Nothing happens if the queue is closed.
        """
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        waiting = self._timers.get(key)
        if waiting is not None:
            if waiting[0] <= due:
                return
            waiting[1].cancel()
        self._timers[key] = due, self._clock.call_later(seconds, self._expiry(key))

    def add_rate_limited(self, key: K) -> None:
        """Add a failed key after a delay that doubles with each consecutive failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retried += 1
        # The exponent is bounded so that a key that fails for weeks does not overflow.
        self.add_after(key, min(self._first_retry * 2 ** min(failures, 64), self._last_retry))

    def forget(self, key: K) -> None:
        """Reset the delay of a key after a success."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of consecutive failures of a key that `add_rate_limited` counted."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key; the caller must call `done`. Raises `QueueClosed` when the queue is closed and empty."""
        while not self._queue:
            if self._closed:
                self._wake()
                raise QueueClosed(self.name)
            await self._wait()
        key = self._queue.popleft()
        if self._queue:
            self._wake()  # another worker can take the next key while this one waits
        now = self._clock.monotonic()
        self._metrics.waited.add(now - self._dirty.pop(key))
        if not self._dirty:
            self._dirty.clear()  # frees the memory of a queue that was long
        self._processing[key] = now
        return key

    def done(self, key: K) -> None:
        """Mark a key as handled, successfully or not. If it was added in the meantime, it is queued again.

        Raises KeyError for a key that `get` did not return.
        """
        self._metrics.worked.add(self._clock.monotonic() - self._processing.pop(key))
        if key in self._dirty:
            self._enqueue(key)

    def close(self) -> None:
        """Accept no more keys; workers finish the queued ones."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake()

    def _expiry(self, key: K) -> Callable[[], None]:
        def expired() -> None:
            del self._timers[key]
            self.add(key)

        return expired

    def _enqueue(self, key: K) -> None:
        self._queue.append(key)
        self._wake()

    def _wake(self) -> None:
        """Wake one worker unless one is already woken. Each worker wakes the next while keys are left."""
        while self._getters and not self._woken:
            getter = self._getters.popleft()
            if not getter.done():
                self._woken = True
                getter.set_result(None)

    async def _wait(self) -> None:
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
            self._woken = False
        except asyncio.CancelledError:
            # A wake-up that arrived together with the cancellation must be passed to another worker.
            if getter.done() and not getter.cancelled():
                self._woken = False
                if self._queue:
                    self._wake()
            raise

    def _depth(self) -> float:
        return len(self._queue)

    def _running_seconds(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - started for started in self._processing.values()]
