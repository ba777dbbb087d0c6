"""Unhealthy devices, as reported by drivers in the status of claims and by nodes in the status of pods (KEP-4680).

A node identifies a device by its CDI name, which other components cannot resolve, or by driver/pool/device.
Therefore a node's report counts only if it can refer to just one device, or covers all devices of its request.
Taints are not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dray.api.allocations import DeviceId
from dray.api.types.core import Pod, ResourceHealth
from dray.api.types.resource import ResourceClaim

_CONDITIONS = ("Ready", "Healthy")  # condition types by which drivers report that a device works
_CLAIM = "claim:"
_UNHEALTHY = "Unhealthy"

UnhealthyDevices = Mapping[DeviceId, str]
"""Unhealthy devices, each with the message of its driver, which may be empty."""


def unhealthy_in_claim(claim: ResourceClaim) -> dict[DeviceId, str]:
    """Return the devices that their driver reports as not ready in the claim's status, each with the message."""
    return {
        DeviceId(one.driver, one.pool, one.device): said.message
        for one in claim.status.devices
        for said in one.conditions or ()
        if said.type in _CONDITIONS and said.status == "False"
    }


def unhealthy_in_pod(pod: Pod, claim_of: Callable[[str], ResourceClaim | None]) -> dict[DeviceId, str]:
    """Return the devices that the pod's node reports as unhealthy, each with the message.

    `claim_of` returns the claim of an entry of the pod by the entry's name, or None.
    """
    found: dict[DeviceId, str] = {}
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        for entry in status.allocatedResourcesStatus:
            if entry.name.startswith(_CLAIM) and any(one.health == _UNHEALTHY for one in entry.resources):
                name, _, request = entry.name.removeprefix(_CLAIM).partition("/")
                found.update(_meant(entry.resources, request, claim_of(name)))
    return found


def _meant(told: Sequence[ResourceHealth], request: str, claim: ResourceClaim | None) -> Iterator[tuple[DeviceId, str]]:
    """Yield the unhealthy devices that a node reports for a request, each with the message.

    Yields nothing if the claim is None or not allocated. An empty `request` means all requests.
    """
    if claim is None or claim.status.allocation is None:
        return
    devices = {
        DeviceId(one.driver, one.pool, one.device)
        for one in claim.status.allocation.devices.results
        if not request or one.request.partition("/")[0] == request.partition("/")[0]
    }
    by_name = {str(device): device for device in devices}
    if all(one.health == _UNHEALTHY for one in told) and len(told) == len(devices):
        messages = {one.resourceID: one.message or "" for one in told}
        only = told[0].message or "" if len(told) == 1 else ""  # several CDI names cannot be matched to devices
        yield from ((device, messages.get(name, only)) for name, device in by_name.items())
        return
    for one in told:
        if one.health == _UNHEALTHY and one.resourceID in by_name:
            yield by_name[one.resourceID], one.message or ""
