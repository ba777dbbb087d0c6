"""Binding conditions: whether drivers have made the devices of a claim ready for binding the pod.

A device can name conditions that its driver sets in the claim's `status.devices` when the device is attached, and
others that it sets when attaching has failed (KEP-5007). The functions are pure: the caller passes the claim and
the time. `dray.scheduler.conditions` waits for the conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from dray.api.times import parse_timestamp
from dray.api.types.meta import Condition
from dray.api.types.resource import DeviceRequestAllocationResult, ResourceClaim


class BindingState(StrEnum):
    """State of a claim's devices before binding."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"


class DeviceBinding(msgspec.Struct, frozen=True):
    """State of a claim's devices, and the condition that determines it: the missing or the failed one.

    `claim` is the name of the claim, `device` has the form driver/pool/device. Only a failure has a reason and a
    message. `device` and `condition` are empty if the state is READY.
    """

    state: BindingState
    claim: str = ""
    device: str = ""
    condition: str = ""
    reason: str = ""
    message: str = ""


def waiting_results(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the allocated devices of a claim that have binding conditions, whether these are met or not.

    Yields nothing if the claim is not allocated.
    """
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            if result.bindingConditions:
                yield result


def device_binding(claim: ResourceClaim) -> DeviceBinding:
    """Return the state of a claim's devices: FAILED, PENDING or READY. A failed condition takes precedence.

    The result names the first device and condition with this state. Without binding conditions, the state is READY.
    """
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
    """Return the time at which devices that are not ready count as failed; None if the allocation has no timestamp.

    The time is in seconds since 1970; `timeout` is in seconds. Also returns None if the claim is not allocated.
    """
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocationTimestamp:
        return None
    # The stored timestamp is rounded down to a second.
    return parse_timestamp(allocation.allocationTimestamp) + 1 + timeout


def is_lost(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Return whether the devices of a claim will not become ready: a condition failed, or the deadline has passed.

    `now` is in seconds since 1970, `timeout` in seconds. Returns False if no device has binding conditions.
    """
    if next(waiting_results(claim), None) is None:
        return False
    found = device_binding(claim)
    deadline = binding_deadline(claim, timeout)
    is_late = found.state is BindingState.PENDING and deadline is not None and now >= deadline
    return is_late or found.state is BindingState.FAILED


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Condition]:
    """Return the conditions of an allocated device by type; empty if its driver has reported none."""
    for known in claim.status.devices or ():
        same = (known.driver, known.pool, known.device) == (result.driver, result.pool, result.device)
        if same and (known.shareID or None) == (result.shareID or None):
            return {condition.type: condition for condition in known.conditions or ()}
    return {}
