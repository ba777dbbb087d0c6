"""Priority of requests from other processes over work of components in this process.

A component that shares the event loop with the server and never yields makes every client wait. A waiting client
sends nothing, so the loop is idle while the client prepares its next request. Therefore a component lets the server
read requests, and answer requests that take no longer than a commit to disk, before its own work goes on.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

# Seconds. `_WAIT_AT_MOST`: maximum time that requests from outside delay work of this process. `_TURN`: how long that
# work may then go on. Long turns are cheaper, because the resulting events are delivered in batches; short turns let
# requests in. Only a sixth of a scheduler's work on a pod runs in these turns: the shortest turn is enough for about
# eight pods.
_WAIT_AT_MOST = 0.02
_TURN = 0.005
_TURN_AMONG_OTHERS = 0.002
# Maximum wait for an answer while nothing changes: a request that waits for a webhook delays a component only once.
_ANSWERED_WITHIN = 0.004
_MOMENT = 0.001


class RequestPriority:
    """Counts requests from other processes, received and answered."""

    def __init__(self) -> None:
        self.came = 0
        self.answered = 0  # including those whose answer has started: a watch goes on for hours
        self._came_before = 0
        self._seen = 0, 0

    async def give_way(self) -> float:
        """Wait until pending requests are answered, at most 20 ms. Returns how many seconds the caller may now work."""
        before, patience_ends = self._came_before, 0.0
        ends = perf_counter() + _WAIT_AT_MOST
        await asyncio.sleep(0)
        while (now := perf_counter()) < ends:
            if self._seen != (self.came, self.answered):
                self._seen, patience_ends = (self.came, self.answered), now + _ANSWERED_WITHIN
                await asyncio.sleep(0)
            elif self.came > self.answered and now < patience_ends:
                await asyncio.sleep(_MOMENT)
            else:
                break
        self._came_before = self.came
        return _TURN if self.came == before else _TURN_AMONG_OTHERS
