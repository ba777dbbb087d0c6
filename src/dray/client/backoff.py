"""Exponential backoff with an upper limit and jitter, so that many clients do not retry at the same time.

The caller decides what counts as a failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from dray.client.clock import Clock


class Backoff:
    """Delays that double with every consecutive failure and start over after a success."""

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
        """Start over with the shortest delay."""
        self._next = self._initial

    def next_delay(self) -> float:
        """Return the next delay in seconds: the current step plus up to 50 % of jitter. Doubles the step for the next
        call.

        The step grows up to a limit, which the jitter can exceed.
        """
        delay = self._next * (1 + self._jitter() / 2)
        self._next = min(self._next * 2, self._limit)
        return delay

    async def pause(self) -> float:
        """Wait for the next delay. Returns its length in seconds."""
        delay = self.next_delay()
        await self._clock.sleep(delay)
        return delay
