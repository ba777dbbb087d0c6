"""Example driver whose GPUs are partitioned on demand: a whole GPU, or instances of five sizes.

Every instance that a GPU could have is a device. Instances that cannot exist at once consume the same counters, so
the scheduler never allocates both, and the hardware is partitioned only when a claim is prepared. Sizes and
placements are those of a GPU with 7 compute and 8 memory slices of 10 GB. A real driver creates the instance in
`prepare` and destroys it in `unprepare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.api.wire import Tree
from dray.driver import (
    AllocatedClaim,
    ClaimReference,
    DeviceMetadata,
    Edits,
    Pool,
    PreparedDevice,
    consumes,
    counter_set,
    device,
)
from dray.driver.pools import Pools

DRIVER = "mig.example.com"
_COMPUTE, _MEMORY = 7, 8
_GIB = 10  # memory in a memory slice


class PartitionProfile(NamedTuple):
    """A size of instances: number of compute and memory slices, and the memory slices where one may begin."""

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]


PROFILES = (
    PartitionProfile("1g.10gb", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    PartitionProfile("2g.20gb", 2, 2, (0, 2, 4)),
    PartitionProfile("3g.40gb", 3, 4, (0, 4)),
    PartitionProfile("4g.40gb", 4, 4, (0,)),
    PartitionProfile("7g.80gb", 7, 8, (0,)),
)


class PartitionDriver:
    name = DRIVER

    def __init__(self, node: str, count: int = 2) -> None:
        self._node = node
        self._count = count

    async def devices(self) -> Pools:
        gpus = [f"gpu-{number}" for number in range(self._count)]
        instances = [instance for gpu in gpus for instance in _instances(gpu)]
        return {self._node: Pool(instances, shared_counters=[_counters(gpu) for gpu in gpus])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        return [
            PreparedDevice(one, Edits(env={f"MIG_INSTANCE_{number}": one.name}), metadata=DeviceMetadata())
            for number, one in enumerate(claim.devices)
        ]

    async def unprepare(self, claim: ClaimReference) -> None:
        """Do nothing. A real driver destroys the instances here."""


def _counters(gpu: str) -> Tree:
    slices = {_memory_slice(number): 1 for number in range(_MEMORY)}
    return counter_set(gpu, {"compute": _COMPUTE, **slices})


def _instances(gpu: str) -> Iterator[Tree]:
    for profile in PROFILES:
        for start in profile.starts:
            slices = {_memory_slice(number): 1 for number in range(start, start + profile.memory)}
            yield device(
                f"{gpu}-{profile.name.replace('.', '-')}-{start}",
                {"gpu": gpu, "profile": profile.name},
                {"memory": f"{_GIB * profile.memory}Gi", "compute": profile.compute},
                consumesCounters=[consumes(gpu, {"compute": profile.compute, **slices})],
            )


def _memory_slice(number: int) -> str:
    return f"memory-slice-{number}"
