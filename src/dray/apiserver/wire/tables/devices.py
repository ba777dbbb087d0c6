"""Rows of devices, claims and groups: the kinds that this project is about."""

from __future__ import annotations

from dray.api.allocations import node_of
from dray.api.types import resource, scheduling
from dray.api.wire import Wire
from dray.apiserver.wire.tables.printer import AGE, NAME, Cell, Printer, counts, plain, wide
from dray.apiserver.wire.tables.text import NONE, age


def claim_state(claim: resource.ResourceClaim) -> str:
    """`pending`, `allocated`, `allocated,reserved`, and the same with `deleted` before it."""
    deleted, allocated = claim.metadata.deletionTimestamp is not None, claim.status.allocation is not None
    states = ["deleted"] if deleted else []
    if allocated:
        states.append("allocated")
        if claim.status.reservedFor:
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _claim(obj: resource.ResourceClaim, now: float) -> list[Cell]:
    allocation, created = obj.status.allocation, age(obj.metadata.creationTimestamp, now)
    results = allocation.devices.results if allocation is not None else ()
    devices = ",".join(f"{result.driver}/{result.pool}/{result.device}" for result in results) or NONE
    return [obj.metadata.name, claim_state(obj), created, devices, node_of(allocation) or NONE]


def _slice(obj: resource.ResourceSlice, now: float) -> list[Cell]:
    spec = obj.spec
    created = age(obj.metadata.creationTimestamp, now)
    return [obj.metadata.name, spec.nodeName or "", spec.driver, spec.pool.name, created]


def _taint_rule(obj: resource.DeviceTaintRule, now: float) -> list[Cell]:
    taint = obj.spec.taint
    return [
        obj.metadata.name,
        taint.key,
        taint.value,
        taint.effect,
        age(taint.timeAdded, now),
        age(obj.metadata.creationTimestamp, now),
    ]


def _pool_status_state(status: resource.ResourcePoolStatusRequestStatus | None) -> str:
    conditions = {c.type: c for c in status.conditions} if status else {}
    if status and "Complete" in conditions:
        if conditions["Complete"].status != "True":
            return "Failed"
        found = status.poolCount if status.poolCount is not None else len(status.pools)
        return f"Complete ({len(status.pools)}/{found} pools)" if len(status.pools) < found else "Complete"
    return "Failed" if "Failed" in conditions else "Pending"


def _pool_status(obj: resource.ResourcePoolStatusRequest, now: float) -> list[Cell]:
    status = obj.status
    pools = status.pools if status else ()
    done = next((c.lastTransitionTime for c in status.conditions if c.type == "Complete"), None) if status else None
    return [
        obj.metadata.name,
        obj.spec.driver,
        sum(p.totalDevices or 0 for p in pools),
        sum(p.availableDevices or 0 for p in pools),
        sum(p.allocatedDevices or 0 for p in pools),
        sum(p.unavailableDevices or 0 for p in pools),
        sum(p.validationError is not None for p in pools),
        len(pools),
        _pool_status_state(status),
        age(done, now) if done else NONE,
    ]


def _policy(policy: scheduling.PodGroupSchedulingPolicy) -> str:
    if policy.gang is not None:
        return "Gang"
    return "Basic" if policy.basic is not None else NONE


def _group_state(obj: scheduling.PodGroup) -> str:
    for condition in obj.status.conditions:
        if condition.type == "PodGroupInitiallyScheduled":
            return "Scheduled" if condition.status == "True" else condition.reason or "Pending"
    return "Pending"


def _group(obj: scheduling.PodGroup, now: float) -> list[Cell]:
    workload = obj.spec.workloadRef
    return [
        obj.metadata.name,
        _policy(obj.spec.schedulingPolicy),
        workload.workloadName if workload else NONE,
        _group_state(obj),
        age(obj.metadata.creationTimestamp, now),
    ]


def _name_and_age(obj: Wire, now: float) -> list[Cell]:
    metadata = obj.metadata  # type: ignore[attr-defined]  # every kind has it, their common type does not say so
    return [metadata.name, age(metadata.creationTimestamp, now)]


CLAIM = Printer((NAME, *plain("State"), AGE, *wide("Devices", "Node")), _claim)
SLICE = Printer((NAME, *plain("Node", "Driver", "Pool"), AGE), _slice)
TAINT_RULE = Printer((NAME, *plain("Key", "Value", "Effect", "TimeAdded"), AGE), _taint_rule)
POOL_STATUS = Printer(
    (
        NAME,
        *plain("Driver"),
        *counts("Total", "Available", "Allocated", "Unavailable", "Errors", "Pools"),
        *plain("Status", "Completed"),
    ),
    _pool_status,
)
POD_GROUP = Printer((NAME, *plain("Policy", "Workload", "Status"), AGE), _group)
NAME_AND_AGE = Printer((NAME, AGE), _name_and_age)
