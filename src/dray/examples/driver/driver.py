"""A complete DRA driver that allocates telescopes of a node. Run with: python driver.py NODE DIRECTORY-OF-THE-NODE"""

import asyncio
import sys
from pathlib import Path

from dray.client.config import load
from dray.client.http import Http
from dray.driver import AllocatedClaim, ClaimReference, Edits, Pool, Pools, PreparedDevice, device, run

TELESCOPES = {"galileo": 30, "hubble": 2400, "webb": 6500}  # name and aperture in millimetres


class TelescopeDriver:
    name = "telescope.example.com"

    def __init__(self, node: str) -> None:
        self.node = node

    async def devices(self) -> Pools:
        """Return all devices by pool. The library publishes them as ResourceSlices and updates them when they change."""
        return {self.node: Pool([device(name, {"aperture": size}) for name, size in TELESCOPES.items()])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        """Prepare a claim for use on this node. Returns for each device the changes to containers that use it."""
        return [PreparedDevice(one, Edits(env={"TELESCOPE": one.name})) for one in claim.devices]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Undo prepare after the last pod that used the claim has ended."""


async def main(node: str, root: Path) -> None:
    async with Http(load()) as client:
        await run(TelescopeDriver(node), client, node=node, kubelet_dir=root, cdi_dir=root / "cdi")


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
