"""Check whether the store can be read and written: on each /readyz, and periodically.

If etcd has lost its majority or its space, or a disk is full, readiness fails, a log line marks the start and the end
of the outage, and a metric shows it. Recovery is not part of this module.
"""

from __future__ import annotations

import asyncio
import logging
import time
from math import inf

from dray.store import Cache, StoreError

logger = logging.getLogger(__name__)

_PROBE_SECONDS = 1.0  # minimum time between probes: a probe writes to the disk, and every client may request one
_LOOK_SECONDS = 5.0  # between periodic checks
OK = "ok"


class StoreHealth:
    """Last known state of a store. `most` is the maximum number of seconds for an answer of the store."""

    def __init__(self, cache: Cache, most: float) -> None:
        self._cache = cache
        self._most = most
        self._asking: asyncio.Task[str] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._probed = -inf  # when the last successful probe began, on the monotonic clock
        self._failing_since: float | None = None

    @property
    def seconds_failing(self) -> float:
        """Seconds since the store became unusable; 0 if the store is usable."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def start(self) -> None:
        """Start periodic checks."""
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop all checks."""
        tasks = [task for task in (self._looking, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def state(self) -> str:
        """Return "ok" if the store can be read and written, else the reason. Concurrent callers share one check."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.state()

    async def _ask(self) -> str:
        """Check the store and log if the state changed. Returns "ok" or the reason why the store cannot be used."""
        state = await self._answer()
        if state != OK and self._failing_since is None:
            self._failing_since = time.monotonic()
            logger.error("the store cannot be used, so this server is not ready: %s", state)
        elif state == OK and self._failing_since is not None:
            logger.warning("the store can be used again after %.0f s", self.seconds_failing)
            self._failing_since = None
        return state

    async def _answer(self) -> str:
        """Read the store, and write to it if the last successful probe is over a second old.

        Returns "ok" or the reason.
        """
        try:
            async with asyncio.timeout(self._most):
                await self._cache.read()
                if (now := time.monotonic()) - self._probed > _PROBE_SECONDS:
                    await self._cache.probe()
                    self._probed = now
        except TimeoutError:
            return f"failed: no answer within {self._most:g} s"
        except StoreError as error:
            return f"failed: {error}"
        return OK
