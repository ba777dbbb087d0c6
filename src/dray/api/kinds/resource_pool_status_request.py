"""ResourcePoolStatusRequest: asks how many devices of a driver's pools are free."""

from __future__ import annotations

from dray.api.kind import DRA, STATUS, Resource
from dray.api.types import resource

KIND = Resource(
    DRA,
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    resource.ResourcePoolStatusRequest,
    versions=("v1alpha3", "v1alpha1"),
    stored="v1alpha3",
    namespaced=False,
    short_names=("rpsr",),
    subresources=STATUS,
    gate="DRAResourcePoolStatus",
)
