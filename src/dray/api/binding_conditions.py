"""Whether the devices of a claim are ready for a pod to be bound: what drivers said of the conditions they promised.

A device may name conditions that its driver sets in the claim's `status.devices` once the device is attached, and others
that it sets when that failed (KEP-5007). Pure: the caller brings the claim and the time. Left out: waiting for them
(`dray.scheduler.conditions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from dray.api.times import parse_timestamp
from dray.api.types.meta import Condition
from dray.api.types.resource import DeviceRequestAllocationResult, ResourceClaim


class BindingState(StrEnum):
    """How far the devices of a claim are."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"


class DeviceBinding(msgspec.Struct, frozen=True):
    """The state of a claim's devices, with the condition that decides it: the one that is missing, or that failed."""

    state: BindingState
    claim: str = ""
    device: str = ""
    condition: str = ""
    reason: str = ""
    message: str = ""


def waiting_results(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """The allocated devices that have conditions."""
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            if result.bindingConditions:
                yield result


def device_binding(claim: ResourceClaim) -> DeviceBinding:
    """What the conditions of a claim say. One that failed counts more than any that is missing."""
    pending: DeviceBinding | None = None
    for result in waiting_results(claim):
        name = f"{result.driver}/{result.pool}/{result.device}"
        told = _conditions(claim, result)
        for type_ in result.bindingFailureConditions:
            if (failed := told.get(type_)) is not None and failed.status == "True":
                why = failed.reason, failed.message
                return DeviceBinding(BindingState.FAILED, claim.metadata.name, name, type_, *why)
        for type_ in result.bindingConditions:
            if pending is None and ((found := told.get(type_)) is None or found.status != "True"):
                pending = DeviceBinding(BindingState.PENDING, claim.metadata.name, name, type_)
    return pending or DeviceBinding(BindingState.READY, claim.metadata.name)


def binding_deadline(claim: ResourceClaim, timeout: float) -> float | None:
    """When devices that are not ready take too long; None where nobody noted since when they are allocated."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocationTimestamp:
        return None
    return parse_timestamp(allocation.allocationTimestamp) + 1 + timeout  # the second is cut off when it is written


def is_lost(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Whether the devices of a claim will not become ready: that failed, or takes too long."""
    if next(waiting_results(claim), None) is None:
        return False
    found = device_binding(claim)
    deadline = binding_deadline(claim, timeout)
    is_late = found.state is BindingState.PENDING and deadline is not None and now >= deadline
    return is_late or found.state is BindingState.FAILED


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Condition]:
    """What is known of an allocated device, by type of condition."""
    for known in claim.status.devices or ():
        same = (known.driver, known.pool, known.device) == (result.driver, result.pool, result.device)
        if same and (known.shareID or None) == (result.shareID or None):
            return {condition.type: condition for condition in known.conditions or ()}
    return {}
