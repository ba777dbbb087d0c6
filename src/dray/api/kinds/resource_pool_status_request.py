"""ResourcePoolStatusRequest: requests the numbers of free and allocated devices in a driver's pools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dray.api import names, paths
from dray.api.cells import NONE
from dray.api.columns import NAME, number, since, text
from dray.api.conversion import WorkloadLookup
from dray.api.kind import STATUS, KindRules, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, checked, named, required_name, unchanged
from dray.api.trees import lend, rename, tree_of
from dray.api.types import resource
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


_STATUS = "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus"


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


_LONGEST_ERROR = 256
_MOST_ERRORS = 10
_ONLY_STORED = ("partitionSummary", "shareableSummary", "validationError")
_COUNTS = ("allocatedDevices", "availableDevices", "totalDevices", "unavailableDevices")


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    stored = tree_of(old)
    lend(tree.get("spec", {}), stored.get("spec", {}), ("defaultPartitionTypeAttribute",))
    status = tree.get("status")
    if status is None:
        return
    truncated = status.pop("truncated", False)
    pools = status.get("pools") or []
    count = status.pop("totalMatchingPools", 0)
    status["poolCount"] = max(count, len(pools) + 1) if truncated else count
    before = {_pool_key(pool): pool for pool in (stored.get("status") or {}).get("pools") or ()}
    for pool in pools:
        rename(pool, {"sliceCount": "resourceSliceCount"})
        if not pool.get("nodeName", True):
            del pool["nodeName"]
        lend(pool, before.get(_pool_key(pool), {}), _ONLY_STORED)


def _from_stored(tree: Tree) -> None:
    tree.get("spec", {}).pop("defaultPartitionTypeAttribute", None)
    status = tree.get("status")
    if not status:
        return
    pools = status.get("pools") or []
    count = status.pop("poolCount", None) or 0
    status["totalMatchingPools"] = count
    status["truncated"] = count > len(pools)
    complaints = [f"pool {p.get('poolName', '')}: {p['validationError']}" for p in pools if p.get("validationError")]
    if complaints and not status.get("validationErrors"):
        status["validationErrors"] = [text[:_LONGEST_ERROR] for text in complaints[:_MOST_ERRORS]]
    for pool in pools:
        rename(pool, {"resourceSliceCount": "sliceCount"})
        for name in (*_COUNTS, "sliceCount"):
            pool[name] = pool.get(name) or 0
        for name in _ONLY_STORED:
            pool.pop(name, None)


def _pool_key(pool: Tree) -> tuple[str, str]:
    return pool.get("driver", ""), pool.get("poolName", "")


KIND = Resource(
    resource.ResourcePoolStatusRequest,
    versions=("v1alpha3", "v1alpha1"),
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
    conditional=("v1alpha3",),
    rules=KindRules(update="", subresources={"status": "resource_pool_status_request.update_request_status"}),
    error_names={
        "v1alpha1": ((r"\bstatus\.poolCount", r"status.totalMatchingPools"), (r"\bresourceSliceCount", r"sliceCount"))
    },
    defaults={"spec.limit": 100},
    guards={"DRAPartitionableDevicesType": ("spec.defaultPartitionTypeAttribute",)},
    to_stored={"v1alpha1": _to_stored},
    from_stored={"v1alpha1": _from_stored},
    is_returned_when_deleted=True,
)


def request_driver(driver: str, old: str | None, path: Path, context: Context) -> Errors:
    """Yield errors in a driver name, also if it is missing. v1alpha1 also permits the form `example.com/gpu`."""
    if context.version == "v1alpha1" and re.fullmatch("[^/]+/[^/]+", driver):
        for part in driver.split("/"):
            yield from named(part, path, names.caseless_subdomain)
    else:
        yield from required_name(driver, path, names.caseless_subdomain)


def update_request_status(
    request: resource.ResourcePoolStatusRequest, old: resource.ResourcePoolStatusRequest, context: Context
) -> Errors:
    """Yield errors if a status that is already set is changed, or a new status is invalid."""
    if old.status is not None:
        yield from unchanged(request.status, old.status, paths.STATUS)
    elif request.status is not None:
        yield from checked(_STATUS, request.status, paths.STATUS)
