"""Example driver with shared devices: network interfaces of which every claim gets a portion of bandwidth.

The scheduler adds up the portions of all claims and never allocates more than the total. A real driver creates a
virtual interface with that rate in `prepare` and removes it in `unprepare`.
"""

from __future__ import annotations

from dray.driver import (
    AllocatedClaim,
    AllocatedDevice,
    ClaimReference,
    DeviceMetadata,
    Edits,
    NetworkData,
    Pool,
    PreparedDevice,
    device,
    portions,
)
from dray.driver.pools import Pools

DRIVER = "nic.example.com"
BANDWIDTH = "bandwidth"  # in bits per second


class BandwidthDriver:
    name = DRIVER

    def __init__(self, node: str, count: int = 2) -> None:
        self._node = node
        self._count = count

    async def devices(self) -> Pools:
        bandwidth = portions("100G", default="1G", minimum="1G", maximum="100G", step="1G")
        nics = [
            device(
                f"nic-{number}",
                {"interface": f"eth{number}", "numaNode": number % 2},
                {BANDWIDTH: bandwidth},
                allowMultipleAllocations=True,
            )
            for number in range(self._count)
        ]
        return {self._node: Pool(nics)}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        return [_prepared(number, one) for number, one in enumerate(claim.devices)]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Do nothing. A real driver removes the virtual interfaces here."""


def _prepared(number: int, one: AllocatedDevice) -> PreparedDevice:
    rate = (one.consumed_capacity or {}).get(BANDWIDTH, "")
    network = NetworkData(interface_name=f"net{number}")
    return PreparedDevice(
        one,
        Edits(env={f"NIC_{number}": one.name, f"NIC_{number}_RATE": rate}),
        metadata=DeviceMetadata(network=network),
    )
