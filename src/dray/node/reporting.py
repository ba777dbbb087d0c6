"""Writes a pod's status in the background, so that slow writes never delay its containers.

Only the latest status is written. While the API server is unavailable, writing is retried with growing pauses. Left
out: the contents of a status.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from dray.api.errors import ApiError, Conflict, Invalid, NotFound
from dray.api.types.core import Pod, PodStatus
from dray.api.wire import Tree
from dray.client import Client, Clock, change_status, with_fields
from dray.client.backoff import Backoff

log = logging.getLogger(__name__)


class StatusWriter:
    """Writes the status of one pod."""

    def __init__(self, client: Client, pod: Pod, clock: Clock) -> None:
        self._client = client
        self._pod = pod
        self._backoff = Backoff(clock, initial=0.2, limit=10.0)
        self._written: Tree = {}
        self._pending: Tree | None = None
        self._task: asyncio.Task[None] | None = None

    def put(self, status: Tree) -> None:
        """Write this status in the background, unless it equals the status written last."""
        if status == (self._pending or self._written):
            return
        self._pending = status
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name=f"status of {self._pod.metadata.name}")

    async def flushed(self) -> None:
        """Wait until the latest status is written or the pod is deleted."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _write(self) -> None:
        while self._pending is not None:
            status, self._pending = self._pending, None
            try:
                self._pod = await change_status(self._client, self._pod, partial(_reported, status))
            except (NotFound, Conflict):
                return  # deleted, or replaced by another pod with the same name
            except Invalid as error:
                log.error("the status of pod %s is refused: %s", self._pod.metadata.name, error)
            except ApiError as error:
                log.debug("the status of pod %s is not written: %s", self._pod.metadata.name, error)
                self._pending = self._pending or status
                await self._backoff.pause()
            else:
                self._written = status
                self._backoff.reset()


def _reported(status: Tree, pod: Pod) -> PodStatus:
    return with_fields(pod.status, status)
