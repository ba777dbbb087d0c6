"""ResourceSlice: some of the devices of a pool, as their driver publishes them."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import DRA, DRA_VERSIONS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "resourceslices",
    "ResourceSlice",
    resource.ResourceSlice,
    versions=DRA_VERSIONS,
    namespaced=False,
    gate="DynamicResourceAllocation",
    columns=(
        NAME,
        text("Node", "spec.nodeName"),
        text("Driver", "spec.driver"),
        text("Pool", "spec.pool.name"),
        AGE,
    ),
)
