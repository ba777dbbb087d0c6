"""Requests the status of resource pools through a ResourcePoolStatusRequest, for users who cannot read claims.

A controller of the cluster computes the status.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from dray.api.errors import NotFound
from dray.api.types.resource import ResourcePoolStatusRequest as Request
from dray.client.interface import Client

PATIENCE_SECONDS = 30.0  # maximum waiting time for a result
_TTL_SECONDS = 60  # the controller deletes a request that could not be deleted here
_POOLS = 1000
_LOOK_SECONDS = (0.05, 1.0)  # polling interval: initial and maximum


async def ask_pool_status(client: Client, driver: str, asker: str) -> Request | None:
    """Create a request for the pool status of a driver and wait for its result.

    Returns None if it is not completed in PATIENCE_SECONDS. `asker` is the prefix of the request's name. The request
    is deleted afterwards. Needs the verbs create, get and delete, as granted by the role in KEP-5677, but not watch.
    Raises ApiError.
    """
    name = f"{asker}-{time.time_ns():x}"
    spec = {"driver": driver, "limit": _POOLS, "ttlSecondsAfterComplete": _TTL_SECONDS}
    await client.create(Request, {"metadata": {"name": name}, "spec": spec})
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, _LOOK_SECONDS[0]
    try:
        while time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS[1])
            found = await client.get(Request, name)
            if found.status is not None and found.status.observationTime is not None:
                return found
    finally:
        with suppress(NotFound):
            await client.delete(Request, name)
    return None
