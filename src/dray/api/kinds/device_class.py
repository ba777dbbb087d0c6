"""DeviceClass: a category of devices that claims can request."""

from __future__ import annotations

from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, KindRules, Resource
from dray.api.types import resource

KIND = Resource(
    resource.DeviceClass,
    versions=DRA_VERSIONS,
    namespaced=False,
    gate="DynamicResourceAllocation",
    generation=("spec",),
    deprecated=DRA_DEPRECATED,
    rules=KindRules(order=("metadata", "changes", "rules")),
    guards={"DRAExtendedResource": ("spec.extendedResourceName",)},
    is_returned_when_deleted=True,
)
