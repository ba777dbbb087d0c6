"""Deletes a node's ResourceSlices that no driver maintains any more: when the agent starts, and after a driver has
gone.

A driver that returns publishes its slices again, so deleting too many does no lasting harm. Left out: publishing.
"""

from __future__ import annotations

import logging

from dray.api.errors import ApiError, NotFound
from dray.api.types.resource import ResourceSlice
from dray.client import Client, Clock
from dray.client.backoff import Backoff

log = logging.getLogger(__name__)

_RETRY_LIMIT_SECONDS = 60.0


class Slices:
    """Deletes the ResourceSlices of one node."""

    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client = client
        self._node = node
        self._clock = clock

    async def remove(self, driver: str = "") -> None:
        """Delete the node's slices of one driver, or of all if `driver` is empty. Retries until that succeeds."""
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        backoff = Backoff(self._clock, initial=0.2, limit=_RETRY_LIMIT_SECONDS)
        while True:
            try:
                await self._client.delete_collection(ResourceSlice, fields=fields)
            except NotFound:
                return  # a server without the resource API has no slices
            except ApiError as error:
                log.warning("slices of %s cannot be removed yet: %s", driver or self._node, error)
                await backoff.pause()
            else:
                return
