"""DeviceClass: a kind of device that claims can ask for."""

from __future__ import annotations

from dray.api.kind import DRA, DRA_VERSIONS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "deviceclasses",
    "DeviceClass",
    resource.DeviceClass,
    versions=DRA_VERSIONS,
    namespaced=False,
    gate="DynamicResourceAllocation",
)
