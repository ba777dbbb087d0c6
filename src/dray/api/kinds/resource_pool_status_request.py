"""ResourcePoolStatusRequest: asks how many devices of a driver's pools are free."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import NAME, number, since, text
from dray.api.kind import DRA, STATUS, Resource
from dray.api.types import resource


def _pools(request: resource.ResourcePoolStatusRequest) -> tuple[resource.PoolStatus, ...]:
    return request.status.pools if request.status else ()


def _state(request: resource.ResourcePoolStatusRequest) -> str:
    status = request.status
    conditions = {c.type: c for c in status.conditions} if status else {}
    if status and "Complete" in conditions:
        if conditions["Complete"].status != "True":
            return "Failed"
        found = status.poolCount if status.poolCount is not None else len(status.pools)
        return f"Complete ({len(status.pools)}/{found} pools)" if len(status.pools) < found else "Complete"
    return "Failed" if "Failed" in conditions else "Pending"


def _completed(request: resource.ResourcePoolStatusRequest) -> str | None:
    conditions = request.status.conditions if request.status else ()
    return next((c.lastTransitionTime for c in conditions if c.type == "Complete"), None)


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
    columns=(
        NAME,
        text("Driver", "spec.driver"),
        number("Total", lambda request: sum(pool.totalDevices or 0 for pool in _pools(request))),
        number("Available", lambda request: sum(pool.availableDevices or 0 for pool in _pools(request))),
        number("Allocated", lambda request: sum(pool.allocatedDevices or 0 for pool in _pools(request))),
        number("Unavailable", lambda request: sum(pool.unavailableDevices or 0 for pool in _pools(request))),
        number("Errors", lambda request: sum(pool.validationError is not None for pool in _pools(request))),
        number("Pools", lambda request: len(_pools(request))),
        text("Status", _state),
        since("Completed", _completed, NONE),
    ),
)
