"""Requests from other processes: whoever works in this one lets them go first, for a moment.

A component that shares the event loop with the server and takes all of it makes every client wait. A client that waits
sends nothing, and leaves the loop without work while it thinks about its next request. So requests are read, and
answered where that takes no longer than a commit to a disk, before work of this process goes on.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

# Seconds: how long requests from outside keep work of this process waiting, and how long that may then go on. Long turns
# are cheaper, as what they cause is told in batches; short ones let others in. Of a scheduler's work on a pod, only the
# sixth part that decides is done in its turns: the shortest are good for about eight pods.
_WAIT_AT_MOST = 0.02
_TURN = 0.005
_TURN_AMONG_OTHERS = 0.002
# How long answers are waited for while nothing happens: a request that waits for a webhook keeps nobody twice.
_ANSWERED_WITHIN = 0.004
_MOMENT = 0.001


class RequestPriority:
    """Counts requests from other processes."""

    def __init__(self) -> None:
        self.came = 0
        self.answered = 0  # or begun to be: a watch goes on for hours
        self._came_before = 0
        self._seen = 0, 0

    async def give_way(self) -> float:
        """Return when requests have been let through, or kept the caller long enough; with its seconds of work."""
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
