"""The interface that a driver author implements: a class with a name and three coroutines.

The library does the rest: publishing, sockets, registration, reading claims, CDI files, repeated and parallel calls,
and restarts. The docstring of each coroutine is its contract.
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
    """A claim cannot be prepared or unprepared now. Users see the text on their pod, and the call is retried."""


@dataclass(frozen=True)
class PreparedDevice:
    """A prepared device, and what containers that use the device get.

    The library writes `edits` as a CDI spec. A driver with its own specs gives their `cdi_ids` instead; both may be
    empty. With `metadata`, containers get a file that describes the device.
    """

    device: AllocatedDevice
    edits: Edits = field(default_factory=Edits)
    cdi_ids: tuple[str, ...] = ()
    metadata: DeviceMetadata | None = None


@dataclass(frozen=True)
class DeviceHealth:
    """Health of a device: True healthy, False unhealthy, None unknown."""

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


@runtime_checkable
class Driver(Protocol):
    """A DRA driver. Every coroutine may be called at any time and, for different claims, in parallel."""

    @property
    def name(self) -> str:
        """Name of the driver: a DNS subdomain that belongs to the vendor, such as gpu.example.com."""
        ...

    async def devices(self) -> Pools:
        """Return the current devices, by pool. Must be quick: called every few seconds and before each prepare."""
        ...

    async def prepare(self, claim: AllocatedClaim) -> Iterable[PreparedDevice]:
        """Prepare the claim's devices. Returns one `PreparedDevice` for each device, or raises `PrepareError`.

        Called again after an error, a crash or a reboot, so existing preparations must not be a problem. Once it has
        succeeded, the library answers repeated calls. Never called concurrently for the same claim.
        """
        ...

    async def unprepare(self, claim: ClaimReference) -> None:
        """Undo prepare, including a prepare that failed half-way. The claim object may already be deleted."""
        ...


def check_driver(driver: object) -> None:
    """Raise TypeError if an object lacks a driver's name or coroutines, naming the missing part.

    A driver needs a `name` and the coroutines `devices`, `prepare` and `unprepare`.
    """
    if not isinstance(getattr(driver, "name", None), str):
        raise TypeError(
            f"{type(driver).__name__} is not a driver: it needs a name, a DNS subdomain such as gpu.example.com"
        )
    for method in ("devices", "prepare", "unprepare"):
        if not inspect.iscoroutinefunction(getattr(driver, method, None)):
            raise TypeError(f"{type(driver).__name__} is not a driver: it needs `async def {method}(…)`")


@runtime_checkable
class HealthReporter(Protocol):
    """A driver that also reports the health of its devices."""

    async def health(self) -> Iterable[DeviceHealth]:
        """Return the health of all devices. Called every few seconds."""
        ...
