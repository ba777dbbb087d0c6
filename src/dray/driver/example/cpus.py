"""Example driver whose devices are parts of their node: NUMA nodes, of which claims get CPUs.

The scheduler counts the CPUs of claims together with the CPUs that pods request (gate DRANodeAllocatableResources),
so the node is not overcommitted. A real driver reads the NUMA nodes from sysfs and pins containers to CPUs in
`prepare`.
"""

from __future__ import annotations

from dray.driver import AllocatedClaim, AllocatedDevice, ClaimReference, Edits, Pool, PreparedDevice, device
from dray.driver.pools import Pools

DRIVER = "cpu.example.com"
CPUS = f"{DRIVER}/cpu"  # the capacity that claims request
PER_NUMA_NODE = 2


class CpuDriver:
    name = DRIVER

    def __init__(self, node: str, count: int = 1) -> None:
        self._node = node
        self._count = count

    async def devices(self) -> Pools:
        numa_nodes = [
            device(
                f"numa-{number}",
                {"numaNode": number},
                {CPUS: PER_NUMA_NODE},
                allowMultipleAllocations=True,
                nodeAllocatableResources={"cpu": {"mapping": {"capacityKey": CPUS, "capacityMultiplier": "1"}}},
            )
            for number in range(self._count)
        ]
        return {self._node: Pool(numa_nodes)}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        return [_prepared(number, one) for number, one in enumerate(claim.devices)]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Do nothing, because environment variables need no cleanup."""


def _prepared(number: int, one: AllocatedDevice) -> PreparedDevice:
    cpus = (one.consumed_capacity or {}).get(CPUS, "")
    return PreparedDevice(one, Edits(env={f"CPU_SET_{number}": one.name, f"CPU_SET_{number}_SIZE": cpus}))
