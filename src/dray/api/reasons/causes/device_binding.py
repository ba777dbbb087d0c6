"""Causes: devices are allocated to the pod, but their driver has not made them ready."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause


class DevicesNotReady(Cause, frozen=True, tag="DevicesNotReady"):
    """The driver has not set a binding condition of a device yet.

    device: the device
    claim: the claim with the device
    condition: the binding condition that is not set
    """

    TEXT = "device {device} of claim {claim} is not ready: its driver has not set condition {condition}"

    device: str
    claim: str
    condition: str


class DevicesFailed(Cause, frozen=True, tag="DevicesFailed"):
    """The driver failed to make a device ready.

    device: the device
    claim: the claim with the device
    condition: the binding failure condition that is set
    reason: reason in the condition
    message: message in the condition
    """

    TEXT = "device {device} of claim {claim} could not be made ready: condition {condition} ({reason}){why}"

    device: str
    claim: str
    condition: str
    reason: str = ""
    message: str = ""

    def words(self) -> dict[str, str]:
        return {"why": f": {self.message}" if self.message else ""}
