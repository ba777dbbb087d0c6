"""ResourceClaim: asks for devices, and says which it got."""

from __future__ import annotations

from dray.api.kind import DRA, DRA_VERSIONS, STATUS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "resourceclaims",
    "ResourceClaim",
    resource.ResourceClaim,
    versions=DRA_VERSIONS,
    subresources=STATUS,
    gate="DynamicResourceAllocation",
)
