"""Time as a parameter: the real clock, and one that is turned by hand.

Everything here that waits (backoff, work queue, events, leader election) asks a `Clock`, so that tests and simulations
decide what time it is. Left out: how the API writes times (`dray.api.times`).
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

# The monotonic clock of Linux stands still while the machine is suspended; other systems have one clock.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Timer(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What parts may know of time."""

    def monotonic(self) -> float:
        """Seconds that never go back; for durations."""
        ...

    def boot_time(self) -> float:
        """Seconds that never go back and go on while the machine is suspended; for how old a right is."""
        ...

    def time(self) -> float:
        """Seconds since 1970; for what is written into objects."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once, `delay` seconds from now."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock on the wall; timers are the running event loop's."""

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_time(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)

    def time(self) -> float:
        return time.time()

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that stands still until it is turned."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._now = start
        self._suspended = 0.0
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._order = count()

    def monotonic(self) -> float:
        return self._now

    def boot_time(self) -> float:
        return self._now + self._suspended

    def time(self) -> float:
        return self._now

    def suspend(self, seconds: float) -> None:
        """Let the machine sleep: timers and the monotonic clock stand still meanwhile."""
        self._suspended += seconds

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._now + max(delay, 0.0), next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Turn the clock, running what falls due in order and letting woken tasks go on in between."""
        until = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._now = max(self._now, due)
            timer.callback()
            await settle()
        self._now = until
        await settle()


# Enough turns of the event loop for a chain of tasks to react to one another; each costs a microsecond.
_SETTLE_TURNS = 30


async def settle() -> None:
    """Let tasks that can run do so, without time going by."""
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)
