"""Time as a parameter: the system clock, and a clock that tests advance manually.

All code that waits (backoff, work queue, events, leader election) uses a `Clock`, so that tests and simulations
control the time. `dray.api.times` formats times for the API.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

# On Linux, the monotonic clock stops while the machine is suspended, but CLOCK_BOOTTIME does not.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Timer(Protocol):
    """A scheduled callback that has not run yet."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Access to time for code that measures or waits."""

    def monotonic(self) -> float:
        """Return monotonic seconds, for durations."""
        ...

    def boot_time(self) -> float:
        """Return monotonic seconds that include time while the machine was suspended, for the age of a lease."""
        ...

    def time(self) -> float:
        """Return seconds since 1970, for timestamps in objects."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once after `delay` seconds. Returns a timer that can cancel it."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The system clock; timers use the running event loop."""

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
    """A clock that stands still until a test advances it."""

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
        """Simulate a suspended machine: only the boot time advances; timers and the monotonic clock do not."""
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
        """Advance the clock. Runs due timers in order and lets woken tasks continue in between."""
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


# Enough turns of the event loop for a chain of tasks to react to each other; a turn costs a microsecond.
_SETTLE_TURNS = 30


async def settle() -> None:
    """Let all runnable tasks continue, without advancing the clock."""
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)
