"""Example driver for devices of a node: imaginary GPUs, and environment variables for containers.

A real driver differs in two places: `_found` detects the hardware, and `prepare` configures it.
"""

from __future__ import annotations

from pathlib import Path

from dray.api.wire import Tree
from dray.driver import AllocatedClaim, ClaimReference, DeviceHealth, Edits, Pool, PreparedDevice, Version, device
from dray.driver.example.options import options
from dray.driver.pools import AnyAttributeValue, Pools
from dray.files import read_text

DRIVER = "gpu.example.com"
_MEMORY = {"a100": "40Gi", "h100": "80Gi"}


class GpuDriver:
    name = DRIVER

    def __init__(self, node: str, count: int = 8, file: Path | None = None, unhealthy: Path | None = None) -> None:
        self._node = node
        self._count = count
        self._file = file  # names of the present GPUs, one per line; may be edited at any time
        self._unhealthy = unhealthy  # names of unhealthy GPUs, one per line

    async def devices(self) -> Pools:
        return {self._node: Pool([_gpu(name) for name in self._found()])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        prepared = []
        for one in claim.devices:
            chosen = options(one.configs)
            env = {f"GPU_DEVICE_{_number(one.name)}": one.name, "GPU_SHARING": chosen.sharing, **chosen.env}
            if chosen.persistence:
                env["GPU_PERSISTENCE"] = "true"
            prepared.append(PreparedDevice(one, Edits(env=env)))
        return prepared

    async def unprepare(self, claim: ClaimReference) -> None:
        """Do nothing, because environment variables need no cleanup."""

    async def health(self) -> list[DeviceHealth]:
        there = set(self._found())
        broken = set(read_text(self._unhealthy).split()) if self._unhealthy is not None else set()
        return [
            DeviceHealth(self._node, name, name in there - broken, "it does not respond" if name in broken else "")
            for name in {*there, *self._all()}
        ]

    def _found(self) -> list[str]:
        return read_text(self._file).split() if self._file is not None else self._all()

    def _all(self) -> list[str]:
        return [f"gpu-{number}" for number in range(self._count)]


def _gpu(name: str) -> Tree:
    number = _number(name)
    model = "h100" if number % 4 == 3 else "a100"
    attributes: dict[str, AnyAttributeValue] = {
        "model": model,
        "index": number,
        "driverVersion": Version("1.0.0"),
        # A real driver adds attributes from sysfs: **pci_attributes("0000:1f:00.0")
        "resource.kubernetes.io/pcieRoot": f"pci0000:{number // 4:02x}",
    }
    return device(name, attributes, {"memory": _MEMORY[model]})


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0
