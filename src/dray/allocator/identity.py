"""Identities and switches that everything in the allocator speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

RESULTS_LIMIT = 32  # devices that one claim's allocation may list (AllocationResultsMaxSize)
ALTERNATIVES_LIMIT = 8  # alternatives of one request; the best of them scores this much


class DeviceId(NamedTuple):
    """A device as the whole cluster knows it."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Features(msgspec.Struct, frozen=True):
    """What a cluster has switched on; devices and requests that need more are passed over or refused.

    The gates are DRAAdminAccess, DRAPrioritizedList and DRADeviceTaints.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    device_taints: bool = True

    @classmethod
    def from_gates(cls, enabled: Callable[[str], bool]) -> Features:
        """The features of a cluster whose gates answer `enabled(name)`."""
        return cls(
            admin_access=enabled("DRAAdminAccess"),
            prioritized_list=enabled("DRAPrioritizedList"),
            device_taints=enabled("DRADeviceTaints"),
        )
