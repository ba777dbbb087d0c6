"""ResourceClaimTemplate: what the claims that are made for pods look like."""

from __future__ import annotations

from dray.api.kind import DRA, DRA_VERSIONS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    resource.ResourceClaimTemplate,
    versions=DRA_VERSIONS,
    gate="DynamicResourceAllocation",
)
