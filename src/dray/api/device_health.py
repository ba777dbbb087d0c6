"""Which devices are not well: as drivers say in the status of claims, and nodes in the status of pods (KEP-4680).

A node names a device by its CDI name, which says nothing to others, or in full. So what a node says counts where it can
only mean one device, or all devices of its request. Left out: taints, by which drivers keep pods away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dray.api.allocations import DeviceId
from dray.api.types.core import Pod, ResourceHealth
from dray.api.types.resource import ResourceClaim

_CONDITIONS = ("Ready", "Healthy")  # by which drivers say that a device works
_CLAIM = "claim:"
_UNHEALTHY = "Unhealthy"

UnhealthyDevices = Mapping[DeviceId, str]
"""Devices that are not well, each with what its driver says of it, which may be nothing."""


def unhealthy_in_claim(claim: ResourceClaim) -> dict[DeviceId, str]:
    """The devices that their driver reports as not ready, in the status of the claim."""
    return {
        DeviceId(one.driver, one.pool, one.device): said.message
        for one in claim.status.devices
        for said in one.conditions or ()
        if said.type in _CONDITIONS and said.status == "False"
    }


def unhealthy_in_pod(pod: Pod, claim_of: Callable[[str], ResourceClaim | None]) -> dict[DeviceId, str]:
    """The devices that the pod's node reports as unhealthy; `claim_of` gives the claim of an entry of the pod."""
    found: dict[DeviceId, str] = {}
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        for entry in status.allocatedResourcesStatus:
            if entry.name.startswith(_CLAIM) and any(one.health == _UNHEALTHY for one in entry.resources):
                name, _, request = entry.name.removeprefix(_CLAIM).partition("/")
                found.update(_meant(entry.resources, request, claim_of(name)))
    return found


def _meant(told: Sequence[ResourceHealth], request: str, claim: ResourceClaim | None) -> Iterator[tuple[DeviceId, str]]:
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
        only = told[0].message or "" if len(told) == 1 else ""  # otherwise a name may stand for any of them
        yield from ((device, messages.get(name, only)) for name, device in by_name.items())
        return
    for one in told:
        if one.health == _UNHEALTHY and one.resourceID in by_name:
            yield by_name[one.resourceID], one.message or ""
