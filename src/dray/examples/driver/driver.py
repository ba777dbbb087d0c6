"""A whole DRA driver: hands out the telescopes of a node. Run it with: python driver.py NODE DIRECTORY-OF-THE-NODE"""

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
        """What there is: published as ResourceSlices, and again whenever it changes."""
        return {self.node: Pool([device(name, {"aperture": size}) for name, size in TELESCOPES.items()])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        """A claim is about to be used here: get its devices ready, and say what containers get."""
        return [PreparedDevice(one, Edits(env={"TELESCOPE": one.name})) for one in claim.devices]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Nobody uses the claim here any more: undo what prepare did."""


async def main(node: str, root: Path) -> None:
    async with Http(load()) as client:
        await run(TelescopeDriver(node), client, node=node, kubelet_dir=root, cdi_dir=root / "cdi")


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
