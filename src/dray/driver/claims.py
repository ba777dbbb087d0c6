"""A claim as a driver sees it: the driver's own devices, each with the configuration that applies to it. Pure.

A claim may hold devices of several drivers and configuration for all of them; this module keeps only what concerns
one driver. Each configuration says whether it comes from a class (written by an administrator) or from the claim (by
a user).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.types.resource import DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim

FROM_CLASS = "FromClass"


@dataclass(frozen=True)
class ClaimReference:
    """Namespace, name and uid of a claim. The uid tells the claim from an earlier one with the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class DeviceConfig:
    """Parameters written for this driver, and whether they come from a class or the claim."""

    source: str  # FromClass or FromClaim
    parameters: Any

    @property
    def from_class(self) -> bool:
        return self.source == FROM_CLASS


@dataclass(frozen=True)
class AllocatedDevice:
    """One device that the scheduler has allocated to a request of the claim.

    `share_id` is "" for a device that is not shared.
    """

    request: str  # includes the alternative, if any: gpu/large
    pool: str
    name: str
    configs: tuple[DeviceConfig, ...] = ()  # those of the class come first; later ones take precedence
    admin_access: bool = False
    share_id: str = ""
    consumed_capacity: Mapping[str, str] | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key that distinguishes this device from the other devices of its claim: request, pool, device and share ID."""
        return self.request, self.pool, self.name, self.share_id


@dataclass(frozen=True)
class AllocatedClaim:
    """A claim to prepare, and the driver's devices in it."""

    reference: ClaimReference
    devices: tuple[AllocatedDevice, ...]
    object: ResourceClaim

    @property
    def uid(self) -> str:
        return self.reference.uid


def allocated(claim: ResourceClaim, driver: str) -> AllocatedClaim:
    """Return the part of an allocated claim that concerns a driver.

    The claim must be allocated. `driver` is the driver's name.
    """
    allocation = claim.status.allocation
    assert allocation is not None, "the caller has checked that the claim is allocated"
    configs = [c for c in allocation.devices.config if c.opaque is not None and c.opaque.driver == driver]
    devices = tuple(_device(result, configs) for result in allocation.devices.results if result.driver == driver)
    metadata = claim.metadata
    return AllocatedClaim(ClaimReference(metadata.namespace, metadata.name, metadata.uid), devices, claim)


def _device(result: DeviceRequestAllocationResult, configs: list[DeviceAllocationConfiguration]) -> AllocatedDevice:
    return AllocatedDevice(
        request=result.request,
        pool=result.pool,
        name=result.device,
        configs=tuple(
            DeviceConfig(config.source, config.opaque.parameters)
            for config in configs
            if config.opaque is not None and _applies(config.requests, result.request)
        ),
        admin_access=bool(result.adminAccess),
        share_id=result.shareID or "",
        consumed_capacity=result.consumedCapacity or None,
    )


def _applies(requests: tuple[str, ...], request: str) -> bool:
    """Whether a configuration for these requests (none: all) applies to a request or its alternatives.

    A request for an alternative is named `request/subrequest`.
    """
    return not requests or request in requests or request.partition("/")[0] in requests
