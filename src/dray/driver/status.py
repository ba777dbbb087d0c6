"""Reports the status of a driver's devices in a claim: conditions, network data, and driver-specific data.

Users read the status with kubectl, and the scheduler waits for it if a device has binding conditions. A driver owns
only its own entries: they are applied under the driver's name, so that several drivers can report on one claim.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.times import timestamp
from dray.api.types.resource import ResourceClaim
from dray.api.wire import Tree
from dray.client import Client, PatchKind
from dray.driver.claims import AllocatedDevice, ClaimReference
from dray.driver.metadata import NetworkData


@dataclass(frozen=True)
class DeviceCondition:
    """One condition of a device; `reason` is a CamelCase word, `message` is for people."""

    type: str
    holds: bool | None
    reason: str
    message: str = ""

    def tree(self, known: Mapping[str, Tree]) -> Tree:
        status = {True: "True", False: "False", None: "Unknown"}[self.holds]
        before = known.get(self.type)
        since = before["lastTransitionTime"] if before and before["status"] == status else timestamp(time.time())
        tree = {"type": self.type, "status": status, "reason": self.reason, "message": self.message}
        return {**tree, "lastTransitionTime": since}


@dataclass(frozen=True)
class DeviceStatus:
    """The status to report for one device of a claim."""

    device: AllocatedDevice
    conditions: Sequence[DeviceCondition] = ()
    network: NetworkData | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


async def report(client: Client, driver: str, claim: ClaimReference, devices: Iterable[DeviceStatus]) -> None:
    """Write the status of a claim's devices. Entries of this driver that are not in `devices` are removed.

    Raises an ApiError: `NotFound` or `Conflict` if the claim is gone or was replaced.
    """
    current = await client.get(ResourceClaim, claim.name, claim.namespace)
    known = {
        (one.pool, one.device, one.shareID or ""): {
            c.type: {"status": c.status, "lastTransitionTime": c.lastTransitionTime} for c in one.conditions or ()
        }
        for one in current.status.devices
        if one.driver == driver
    }
    entries = [_entry(driver, one, known) for one in devices]
    tree = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid},
        "status": {"devices": entries},
    }
    await client.patch(
        ResourceClaim,
        claim.name,
        tree,
        claim.namespace,
        kind=PatchKind.APPLY,
        subresource="status",
        manager=driver,
        force=True,
    )


def _entry(driver: str, one: DeviceStatus, known: Mapping[tuple[str, str, str], Mapping[str, Tree]]) -> Tree:
    device = one.device
    tree: Tree = {"driver": driver, "pool": device.pool, "device": device.name}
    if device.share_id:
        tree["shareID"] = device.share_id
    before = known.get((device.pool, device.name, device.share_id), {})
    if one.conditions:
        tree["conditions"] = [condition.tree(before) for condition in one.conditions]
    if one.network is not None:
        tree["networkData"] = one.network.tree()
    if one.data:
        tree["data"] = dict(one.data)
    return tree
