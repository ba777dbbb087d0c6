"""Which devices are not well: as drivers say in the status of claims, and nodes in the status of pods (KEP-4680).

A node names a device by its CDI name, which says nothing to others, or in full. So a word of a node counts where it can
only mean one device, or all devices of its request. Left out: taints, by which drivers keep pods away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dray.api.allocations import DeviceId
from dray.api.types.core import Pod, ResourceHealth
from dray.api.types.resource import ResourceClaim
from dray.client import Key

_CONDITIONS = ("Ready", "Healthy")  # by which drivers say that a device works
_CLAIM = "claim:"
_UNHEALTHY = "Unhealthy"


def unhealthy_in_claim(claim: ResourceClaim) -> frozenset[DeviceId]:
    """The devices that their driver reports as not ready, in the status of the claim."""
    return frozenset(
        DeviceId(one.driver, one.pool, one.device)
        for one in claim.status.devices
        if any(said.type in _CONDITIONS and said.status == "False" for said in one.conditions or ())
    )


def unhealthy_in_pod(
    pod: Pod, uses: Iterable[Key], claim_of: Callable[[Key], ResourceClaim | None]
) -> frozenset[DeviceId]:
    """The devices that the pod's node reports as unhealthy."""
    statuses = (*pod.status.containerStatuses, *pod.status.initContainerStatuses)
    every = (entry for status in statuses for entry in status.allocatedResourcesStatus)
    told = [entry for entry in every if entry.name.startswith(_CLAIM)]
    if not any(one.health == _UNHEALTHY for entry in told for one in entry.resources):
        return frozenset()
    found: set[DeviceId] = set()
    for entry in told:
        name, _, request = entry.name.removeprefix(_CLAIM).partition("/")
        claims = [claim_of(key) for key in uses if name in _entries_of(pod, key[1])]
        found.update(_meant(entry.resources, request, [one for one in claims if one is not None]))
    return frozenset(found)


def _entries_of(pod: Pod, claim: str) -> Iterator[str]:
    """The names that the pod has for a claim."""
    for entry in pod.spec.resourceClaims:
        if entry.resourceClaimName == claim:
            yield entry.name
    for status in pod.status.resourceClaimStatuses:
        if status.resourceClaimName == claim:
            yield status.name


def _meant(told: Iterable[ResourceHealth], request: str, claims: Iterable[ResourceClaim]) -> Iterator[DeviceId]:
    devices = {
        DeviceId(one.driver, one.pool, one.device)
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
        if not request or one.request.partition("/")[0] == request.partition("/")[0]
    }
    by_name = {str(device): device for device in devices}
    told = [*told]
    if all(one.health == _UNHEALTHY for one in told) and len(told) == len(devices):
        yield from devices
        return
    for one in told:
        if one.health == _UNHEALTHY and one.resourceID in by_name:
            yield by_name[one.resourceID]
