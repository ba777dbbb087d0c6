"""ResourceClaim: requests devices and records the allocated ones."""

from __future__ import annotations

from dray.api.allocations import node_of
from dray.api.cells import NONE
from dray.api.claimspecs import FLAT_NAMES, claim_defaults, claim_guards, flatten, unflatten
from dray.api.columns import AGE, NAME, text, wide
from dray.api.conversion import WorkloadLookup
from dray.api.gates import FeatureGates
from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, STATUS, KindRules, Resource
from dray.api.trees import fill
from dray.api.types import resource
from dray.api.wire import Tree, Wire


def _state(claim: resource.ResourceClaim) -> str:
    """Return `pending`, `allocated` or `allocated,reserved`; if the claim is being deleted, with `deleted` first."""
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


def _defaults(tree: Tree) -> None:
    claim_defaults(tree.setdefault("spec", {}))
    allocation = (tree.get("status") or {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results") or ():
        for toleration in result.get("tolerations") or ():
            fill(toleration, "operator", "Equal")


def _forget_devices(tree: Tree, old: resource.ResourceClaim) -> None:
    """Remove the status of devices that are no longer allocated.

    A client that omits `reservedForAnyPod` from an allocation does not know the field; its old value is kept.
    """
    status = tree.setdefault("status", {})
    if old.status.allocation is None:
        return
    allocation = status.get("allocation") or {}
    if allocation and old.status.allocation.reservedForAnyPod:
        allocation.setdefault("reservedForAnyPod", True)
    devices = status.get("devices")
    if not devices:
        return
    before = {(result.driver, result.pool, result.device) for result in old.status.allocation.devices.results}
    kept = {_device(result) for result in (allocation.get("devices") or {}).get("results") or ()}
    status["devices"] = [device for device in devices if _device(device) not in before - kept]


def _device(item: Tree) -> tuple[str, str, str]:
    return item.get("driver", ""), item.get("pool", ""), item.get("device", "")


def _settles(status: resource.ResourceClaimStatus, old: resource.ResourceClaimStatus, gates: FeatureGates) -> bool:
    allocation = status.allocation
    if allocation is old.allocation or allocation == old.allocation:
        return True
    if status.devices and old.allocation is not None:
        return False  # the device status of deallocated devices must be removed
    return allocation is None or not (_is_guarded(allocation) or (old.allocation and _is_guarded(old.allocation)))


def _is_guarded(allocation: resource.AllocationResult) -> bool:
    """Return whether an allocation has a field that depends on a feature gate."""
    if allocation.reservedForAnyPod is not None:
        return True
    return any(
        result.adminAccess is not None or result.tolerations or result.skipNodeOperations
        for result in allocation.devices.results
    )


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    unflatten(tree.get("spec", {}))


def _from_stored(tree: Tree) -> None:
    flatten(tree.get("spec", {}))


KIND = Resource(
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
    deprecated=DRA_DEPRECATED,
    rules=KindRules(
        update="", order=("metadata", "changes", "rules"), subresources={"status": "claims.update_claim_status"}
    ),
    error_names={"v1beta1": FLAT_NAMES},
    more_defaults=_defaults,
    guards=claim_guards("spec"),
    on_update={"status": _forget_devices},
    settles=_settles,
    to_stored={"v1beta1": _to_stored},
    from_stored={"v1beta1": _from_stored},
    is_returned_when_deleted=True,
)
