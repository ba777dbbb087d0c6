"""Numbers of devices per pool, for an identity that may not read all claims (KEP-5677)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from dray.api.errors import ApiError, Unauthorized
from dray.api.types.resource import ResourcePoolStatusRequest
from dray.client import Client
from dray.client.poolstatus import ask_pool_status
from dray.web.rights import may

log = logging.getLogger(__name__)

PoolCounts = dict[tuple[str, str], tuple[int, int, int, int]]
"""Total, allocated, available and unavailable devices, by driver and pool."""
_DRIVERS = 8  # requested per round; a user may make ten requests per minute


async def pool_counts(client: Client, drivers: Iterable[str]) -> PoolCounts:
    """Return the numbers of devices in the pools of these drivers, from ResourcePoolStatusRequests.

    Pools without an answer are omitted.
    """
    found: PoolCounts = {}
    served = await client.serves(ResourcePoolStatusRequest)
    if not served or not await may(client, "create", ResourcePoolStatusRequest):
        return found
    for driver in sorted(drivers)[:_DRIVERS]:
        try:
            answer = await ask_pool_status(client, driver, "dray-dashboard")
        except Unauthorized:
            raise
        except ApiError as error:
            log.debug("pools of %s are not counted: %s", driver, error)
            continue
        for pool in answer.status.pools if answer is not None and answer.status is not None else ():
            if pool.totalDevices is None:
                continue  # slices are missing, so there are no numbers
            numbers = (pool.totalDevices, pool.allocatedDevices, pool.availableDevices, pool.unavailableDevices)
            found[pool.driver, pool.poolName] = tuple(number or 0 for number in numbers)  # type: ignore[assignment]
    return found
