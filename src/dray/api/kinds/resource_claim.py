"""ResourceClaim: asks for devices, and says which it got."""

from __future__ import annotations

from dray.api.allocations import node_of
from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import DRA, DRA_VERSIONS, STATUS, Resource
from dray.api.types import resource


def _state(claim: resource.ResourceClaim) -> str:
    """Returns `pending`, `allocated`, `allocated,reserved`, and the same with `deleted` before it."""
    deleted, allocated = claim.metadata.deletionTimestamp is not None, claim.status.allocation is not None
    states = ["deleted"] if deleted else []
    if allocated:
        states.append("allocated")
        if claim.status.reservedFor:
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _devices(claim: resource.ResourceClaim) -> str:
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    return ",".join(f"{result.driver}/{result.pool}/{result.device}" for result in results)


KIND = Resource(
    DRA,
    "resourceclaims",
    "ResourceClaim",
    resource.ResourceClaim,
    versions=DRA_VERSIONS,
    subresources=STATUS,
    gate="DynamicResourceAllocation",
    columns=(
        NAME,
        text("State", _state),
        AGE,
        wide("Devices", _devices, NONE),
        wide("Node", lambda claim: node_of(claim.status.allocation), NONE),
    ),
)
