"""How often something may be done: a bucket of tokens that refills at a steady rate.

The controller waits here before it counts and writes, so that a flood of requests takes a bounded share of the process
and of the API server. Left out: retries, which the work queue delays.
"""

from __future__ import annotations

from dray.client import Clock


class Pace:
    """At most `per_second` turns a second, and up to `burst` at once after a rest."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._turns = float(burst)  # negative: so many were promised to callers that still wait
        self._since = clock.monotonic()

    async def turn(self) -> None:
        """Wait for the next turn; those who came first go first."""
        now = self._clock.monotonic()
        self._turns = min(self._burst, self._turns + (now - self._since) * self._per_second)
        self._since = now
        self._turns -= 1
        if self._turns < 0:
            await self._clock.sleep(-self._turns / self._per_second)
