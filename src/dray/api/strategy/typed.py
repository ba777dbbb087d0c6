"""Statuses in which the server has nothing to correct, told from their typed form.

The cluster's own parts write thousands of these a second, and what they write seldom has a field that a gate guards.
Left out: correcting anything (`guards`, `updates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.resources import DRA
from dray.api.types import core, resource

Stands = Callable[[Any, Any, FeatureGates], bool]


def _pod(status: core.PodStatus, old: core.PodStatus, gates: FeatureGates) -> bool:
    return gates.served("DynamicResourceAllocation") and bool(status.qosClass or not old.qosClass)


def _claim(status: resource.ResourceClaimStatus, old: resource.ResourceClaimStatus, gates: FeatureGates) -> bool:
    allocation = status.allocation
    if allocation is old.allocation or allocation == old.allocation:
        return True
    if status.devices and old.allocation is not None:
        return False  # what drivers said about devices goes with the devices
    return allocation is None or not (_is_guarded(allocation) or (old.allocation and _is_guarded(old.allocation)))


def _is_guarded(allocation: resource.AllocationResult) -> bool:
    """Whether an allocation has a field that depends on a gate."""
    if allocation.reservedForAnyPod is not None:
        return True
    return any(
        result.adminAccess is not None or result.tolerations or result.skipNodeOperations
        for result in allocation.devices.results
    )


STANDS: Mapping[tuple[str, str], Stands] = {("", "Pod"): _pod, (DRA, "ResourceClaim"): _claim}
