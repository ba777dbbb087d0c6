"""Statuses in which the server has nothing to correct, told from their typed form.

The cluster's own parts write thousands of these a second, and what they write seldom has a field that a gate guards.
What a status says replaces fields as a whole here, and never an allocation that is there already; so what the server
forgets with an allocation, and what it keeps of a pod, is as it was. Left out: correcting anything (`guards`, `updates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.resources import DRA
from dray.api.types import core, resource

Stands = Callable[[Any, FeatureGates], bool]


def _pod(status: core.PodStatus, gates: FeatureGates) -> bool:
    return gates.served("DynamicResourceAllocation")


def _claim(status: resource.ResourceClaimStatus, gates: FeatureGates) -> bool:
    allocation = status.allocation
    if allocation is None:
        return True
    if allocation.reservedForAnyPod is not None:
        return False
    for result in allocation.devices.results:
        if result.adminAccess is not None or result.tolerations or result.skipNodeOperations:
            return False
    return True


STANDS: Mapping[tuple[str, str], Stands] = {("", "Pod"): _pod, (DRA, "ResourceClaim"): _claim}
