"""A steady pace for those who would write without a pause, so that one of them cannot take the others' time.

What is too fast is not refused but made to wait, as a rate-limited client would wait by itself. A driver that publishes
its devices in a loop is the one that matters: every update of a slice is news for the scheduler and for all who watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable

_REMEMBERED = 10_000  # who wrote lately; beyond that, those who have rested are forgotten


class Pace:
    """Lets each of many writers go on `rate` times a second in the long run, and `burst` times at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._step = 1 / rate
        self._rest = burst / rate  # seconds without a write after which a whole burst is allowed again
        self._clock = clock
        self._next: dict[Hashable, float] = {}  # when a writer's next write would be due if it had no rest

    async def keep(self, who: Hashable) -> None:
        """Wait until this writer may go on."""
        delay = self.delay(who)
        if delay > 0:
            await asyncio.sleep(delay)

    def delay(self, who: Hashable) -> float:
        """How long this writer must wait for the write that it wants to make now."""
        now = self._clock()
        if who not in self._next and len(self._next) >= _REMEMBERED:
            self._next = {known: due for known, due in self._next.items() if due + self._rest > now}
        due = max(self._next.get(who, 0.0), now - self._rest) + self._step
        self._next[who] = due
        return max(0.0, due - now)
