"""Devices of a pod by claim. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dray.api.allocations import DeviceId
from dray.api.types.core import Pod
from dray.core.objects import StoredObjects


class DeviceUse(msgspec.Struct, frozen=True):
    """A device of a pod. For a generated claim, `claim` is the name of the pod's entry."""

    claim: str
    request: str
    device: DeviceId


def devices_of(objects: StoredObjects, pod: Pod) -> Iterator[DeviceUse]:
    """Yield the devices of the claims that a pod uses.

    Unallocated claims are left out. A generated claim is named by the pod's entry.
    """
    for use, claim in objects.claims_of(pod):
        if claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            device = DeviceId(result.driver, result.pool, result.device)
            yield DeviceUse(use.entry if use.generated else claim.metadata.name, result.request, device)
