"""How long to wait after failures: exponential, capped, with jitter so that many clients do not return at once.

Left out: what counts as a failure, which the caller knows.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from dray.client.clock import Clock


class Backoff:
    """Delays that double with every failure in a row and start over after a success."""

    def __init__(
        self,
        clock: Clock,
        *,
        initial: float = 0.05,
        limit: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._initial = initial
        self._limit = limit
        self._jitter = jitter
        self._next = initial

    def reset(self) -> None:
        self._next = self._initial

    def next_delay(self) -> float:
        """Between the current step and one and a half times it."""
        delay = self._next * (1 + self._jitter() / 2)
        self._next = min(self._next * 2, self._limit)
        return delay

    async def pause(self) -> float:
        """Wait for the next delay, and say how long that was."""
        delay = self.next_delay()
        await self._clock.sleep(delay)
        return delay
