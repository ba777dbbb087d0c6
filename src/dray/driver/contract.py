"""What a driver author writes: a class with a name and three coroutines.

The library does the rest: publishing, sockets, registration, reading claims, CDI files, repeated and parallel calls,
restarts. The contract of each coroutine stands beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from dray.driver.cdi import Edits
from dray.driver.claims import AllocatedClaim, AllocatedDevice, ClaimReference
from dray.driver.metadata import DeviceMetadata
from dray.driver.pools import Pools


class PrepareError(Exception):
    """Why a claim cannot be prepared or unprepared now; users find the text on their pod. It will be tried again."""


@dataclass(frozen=True)
class PreparedDevice:
    """A device that is ready, and what containers get that use it.

    The library writes `edits` as a CDI spec. A driver that has specs of its own names its `cdi_ids` instead; neither is
    fine too. With `metadata`, containers find a file that describes the device.
    """

    device: AllocatedDevice
    edits: Edits = field(default_factory=Edits)
    cdi_ids: tuple[str, ...] = ()
    metadata: DeviceMetadata | None = None


@dataclass(frozen=True)
class DeviceHealth:
    """How a device is: True healthy, False unhealthy, None unknown."""

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


@runtime_checkable
class Driver(Protocol):
    """A DRA driver. Every coroutine may be called at any time and, for different claims, in parallel."""

    @property
    def name(self) -> str:
        """A DNS subdomain that belongs to the vendor, such as gpu.example.com."""
        ...

    async def devices(self) -> Pools:
        """What there is now, by pool. Called every few seconds and before each prepare, so it should be quick."""
        ...

    async def prepare(self, claim: AllocatedClaim) -> Iterable[PreparedDevice]:
        """Get the claim's devices ready; one answer for each, or PrepareError.

        Called again after an error, a crash or a reboot, so it must not mind what is there already; once it has
        succeeded, the library answers repeated calls. Never called twice at a time for the same claim.
        """
        ...

    async def unprepare(self, claim: ClaimReference) -> None:
        """Undo prepare, also a prepare that failed half-way. The claim object may be gone already."""
        ...


def check_driver(driver: object) -> None:
    """Raise TypeError that names what a driver lacks, before it is asked for it in the middle of its work."""
    if not isinstance(getattr(driver, "name", None), str):
        raise TypeError(
            f"{type(driver).__name__} is no driver: it needs a name, a DNS subdomain such as gpu.example.com"
        )
    for method in ("devices", "prepare", "unprepare"):
        if not inspect.iscoroutinefunction(getattr(driver, method, None)):
            raise TypeError(f"{type(driver).__name__} is no driver: it needs `async def {method}(…)`")


@runtime_checkable
class HealthReporter(Protocol):
    """A driver that also says how its devices are."""

    async def health(self) -> Iterable[DeviceHealth]:
        """The health of all devices; asked every few seconds."""
        ...
