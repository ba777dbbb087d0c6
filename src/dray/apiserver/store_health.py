"""Whether the store can be read and written now: asked for /readyz, and now and then without being asked.

An etcd that has lost its majority or has no space left, and a disk that is full, are told where somebody looks: readiness
fails, one line is logged when it begins and one when it is over, and metrics tell it. Left out: doing anything about it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from math import inf

from dray.store import Cache, StoreError

logger = logging.getLogger(__name__)

_PROBE_SECONDS = 1.0  # a probe writes to the disk, and everybody may ask for one
_LOOK_SECONDS = 5.0  # between two looks that nobody asked for
OK = "ok"


class StoreHealth:
    """What was found out last about a store. `most` is how long an answer may take, in seconds."""

    def __init__(self, cache: Cache, most: float) -> None:
        self._cache = cache
        self._most = most
        self._asking: asyncio.Task[str] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._probed = -inf  # when the last successful probe began, on the monotonic clock
        self._failing_since: float | None = None

    @property
    def seconds_failing(self) -> float:
        """For how long the store has not been usable; 0 while it is."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def start(self) -> None:
        """Look now and then, also when nobody asks."""
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        tasks = [task for task in (self._looking, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def state(self) -> str:
        """Returns "ok" if the store can be read and written, else why not. Callers at the same time share one question."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.state()

    async def _ask(self) -> str:
        state = await self._answer()
        if state != OK and self._failing_since is None:
            self._failing_since = time.monotonic()
            logger.error("the store cannot be used, so this server is not ready: %s", state)
        elif state == OK and self._failing_since is not None:
            logger.warning("the store can be used again after %.0f s", self.seconds_failing)
            self._failing_since = None
        return state

    async def _answer(self) -> str:
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
