"""How full pools are, for users who may not read claims: a ResourcePoolStatusRequest is created, read and deleted.

Left out: counting, which a controller of the cluster does.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from dray.api.errors import NotFound
from dray.api.types.resource import ResourcePoolStatusRequest as Request
from dray.client.interface import Client

PATIENCE_SECONDS = 30.0  # how long an answer is waited for
_TTL_SECONDS = 60  # a request that could not be deleted goes by itself
_POOLS = 1000
_LOOK_SECONDS = (0.05, 1.0)  # between two looks at a request: the first, growing up to the last


async def ask_pool_status(client: Client, driver: str, asker: str) -> Request | None:
    """The answered request; None where nobody answers in time. Raises ApiError.

    Needs the verbs create, get and delete, as the role in KEP-5677 grants them, and no watch.
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
