"""Example driver for devices behind a network, which any node can use and no node owns.

One instance without a node publishes the pool. On each node another instance prepares claims. A real driver would
attach the device in `prepare` and detach it in `unprepare`.
"""

from __future__ import annotations

from dray.driver import AllocatedClaim, ClaimReference, Edits, Pool, PreparedDevice, device
from dray.driver.pools import Pools

DRIVER = "fabric.example.com"
POOL = "fabric"


class NetworkDriver:
    name = DRIVER

    def __init__(self, count: int = 8) -> None:
        self._count = count

    async def devices(self) -> Pools:
        names = (f"accelerator-{number}" for number in range(self._count))
        return {POOL: Pool([device(name, {"model": "fabric-1"}) for name in names], all_nodes=True)}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        return [
            PreparedDevice(one, Edits(env={f"FABRIC_{number}": f"fabric://{one.pool}/{one.name}"}))
            for number, one in enumerate(claim.devices)
        ]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Do nothing. A real driver detaches the devices here."""
