"""Controller loop: take a key from the queue, reconcile it, and retry later after a failure.

A reconciler is a coroutine that takes a key and returns None, or the seconds after which to reconcile again. It
reads the current state and must work regardless of what happened before. Informer handlers add the keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic

from dray.api.errors import ApiError, Conflict, Forbidden
from dray.background.turns import WRITE, take
from dray.client.clock import Clock
from dray.client.errors import permission_of
from dray.client.workqueue import K, QueueClosed, WorkQueue

_MOST_PERMISSIONS = 1_000  # bounds memory, because an admission plugin may refuse every object with another message
log = logging.getLogger(__name__)

Reconcile = Callable[[K], Awaitable[float | None]]


class Controller(Generic[K]):
    """A work queue and the workers that process it.

    A Conflict is normal (another client wrote first) and retried without a warning. Another API error is logged
    if it differs from the last one of its key; a missing permission is logged once for all keys; other exceptions
    are logged each time.
    """

    def __init__(self, name: str, reconcile: Reconcile[K], *, workers: int = 1, clock: Clock | None = None) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(name, clock=clock)
        self._reconcile = reconcile
        self._workers = workers
        self._told: dict[K, str] = {}  # failing key → error that was logged last
        self._missing: set[str] = set()  # missing permissions that have been logged

    async def run(self) -> None:
        """Process keys until cancelled, or until the queue is closed and empty."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} worker {number}")

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await take(WRITE)
                await self._handle(key)
            finally:
                self.queue.done(key)

    async def _handle(self, key: K) -> None:
        try:
            again = await self._reconcile(key)
        except Conflict as error:
            log.debug("%s: %s: %s", self.name, key, error)
        except Forbidden as error:
            self._report_missing(key, error)
        except ApiError as error:
            is_known = self._told.get(key) == str(error)
            self._told[key] = str(error)
            log.log(logging.DEBUG if is_known else logging.WARNING, "%s: %s: %s", self.name, key, error)
        except Exception:
            log.exception("%s: %s failed", self.name, key)
        else:
            self.queue.forget(key)
            self._told.pop(key, None)
            if again is not None:
                self.queue.add_after(key, again)
            return
        self.queue.add_rate_limited(key)

    def _report_missing(self, key: K, error: Forbidden) -> None:
        right = permission_of(error)
        is_known = right in self._missing
        if len(self._missing) < _MOST_PERMISSIONS:
            self._missing.add(right)
        log.log(logging.DEBUG if is_known else logging.ERROR, "%s: %s: %s", self.name, key, error)
