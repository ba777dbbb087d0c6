"""How full pools are, for users who may not read claims: a ResourcePoolStatusRequest is created, read and deleted.

Left out: counting, which a controller of the cluster does.
"""

from __future__ import annotations

import time
from contextlib import aclosing, suppress

from dray.api.errors import NotFound
from dray.api.types.resource import ResourcePoolStatusRequest as Request
from dray.client.interface import Client

PATIENCE_SECONDS = 30.0  # how long an answer is waited for
_TTL_SECONDS = 60  # a request that could not be deleted goes by itself
_POOLS = 1000


async def ask_pool_status(client: Client, driver: str, asker: str) -> Request | None:
    """The answered request; None where nobody answers in time. Raises ApiError."""
    name = f"{asker}-{time.time_ns():x}"
    spec = {"driver": driver, "limit": _POOLS, "ttlSecondsAfterComplete": _TTL_SECONDS}
    made = await client.create(Request, {"metadata": {"name": name}, "spec": spec})
    version = made.metadata.resourceVersion
    watch = client.watch(Request, fields=f"metadata.name={name}", resource_version=version, timeout=PATIENCE_SECONDS)
    try:
        async with aclosing(watch):
            async for batch in watch:
                for event in batch:
                    status = event.object.status
                    if status is not None and status.observationTime is not None:
                        return event.object
    finally:
        with suppress(NotFound):
            await client.delete(Request, name)
    return None
