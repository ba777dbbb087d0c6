"""Rows of claims, pods and groups, and the relations between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from dray.api.allocations import DeviceId, node_of
from dray.api.claim_lifecycle import state_of
from dray.api.podclaims import group_name, is_finished, uses_of
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceRequest, ResourceClaim
from dray.api.types.scheduling import PodGroup, Workload
from dray.client import Key
from dray.questions.pod_groups import GroupRow
from dray.web.tables import Strings, TableRow

RowNumber = Callable[[str], int | None]


class PodState(IntEnum):
    """Progress of a pod."""

    WAITING = 0
    GATED = 1
    STARTING = 2
    RUNNING = 3
    ENDING = 4
    DONE = 5


def pod_state(pod: Pod) -> PodState:
    """Return the state of a pod, from its spec and status."""
    if is_finished(pod):
        return PodState.DONE
    if pod.metadata.deletionTimestamp is not None:
        return PodState.ENDING
    if not pod.spec.nodeName:
        return PodState.GATED if pod.spec.schedulingGates else PodState.WAITING
    return PodState.RUNNING if pod.status.phase == "Running" else PodState.STARTING


def claim_keys(pod: Pod, group: PodGroup | None) -> tuple[Key, ...]:
    """Return the claims that a pod uses, as its entries currently resolve.

    Each is (namespace, name), once. Entries without a claim are left out.
    """
    return tuple(dict.fromkeys((pod.metadata.namespace, use.claim) for use in uses_of(pod, group) if use.claim))


def group_key(pod: Pod) -> Key | None:
    """Return the key of a pod's group, or None.

    The key is (namespace, name).
    """
    name = group_name(pod)
    return (pod.metadata.namespace, name) if name else None


def pod_row(pod: Pod, state: PodState, strings: Strings, node: int | None, cause: int | None, claims: tuple[int, ...], group: int | None) -> TableRow:  # fmt: skip
    """Return the row of a pod."""
    meta = pod.metadata
    return (
        strings.number(meta.namespace),
        meta.name,
        int(state),
        node,
        created(meta),
        cause,
        claims,
        group,
        owner_of(meta),
    )


def claim_row(claim: ResourceClaim, strings: Strings, allocated: float | None, node: RowNumber, devices: Iterable[tuple[DeviceId, int]], pods: tuple[int, ...]) -> TableRow:  # fmt: skip
    """Return the row of a claim."""
    meta, status = claim.metadata, claim.status
    numbers = dict(devices)
    where = node_of(status.allocation)
    return (
        strings.number(meta.namespace),
        meta.name,
        strings.number(state_of(claim).value),
        created(meta),
        allocated,
        node(where) if where else None,
        tuple(numbers.values()),
        tuple(_request(one) for one in claim.spec.devices.requests or ()),
        tuple((one.resource, one.name, one.uid) for one in status.reservedFor),
        pods,
        owner_of(meta),
        tuple(_prepared(claim, numbers)),
    )


def devices_of(claim: ResourceClaim) -> tuple[DeviceId, ...]:
    """Return the allocated devices of a claim without duplicates, including those with admin access."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return tuple(dict.fromkeys(DeviceId(one.driver, one.pool, one.device) for one in results))


def _request(request: DeviceRequest) -> tuple[str, str, int | str, tuple[tuple[str, str, int | str], ...]]:
    """Return a request as (name, class, count, alternatives).

    The class is empty and the count 0 if the request has alternatives, each (name, class, count).
    """
    others = tuple((sub.name, sub.deviceClassName, _count(sub)) for sub in request.firstAvailable)
    exact = request.exactly
    if exact is None:
        return request.name, "", 0, others
    return request.name, exact.deviceClassName, _count(exact), others


def _count(spec: object) -> int | str:
    """Return the number of devices of a request, or "all"."""
    return "all" if getattr(spec, "allocationMode", "") == "All" else max(int(getattr(spec, "count", 1)), 1)


def _prepared(claim: ResourceClaim, numbers: dict[DeviceId, int]) -> Iterable[tuple[int, bool | None]]:
    """Yield row number and readiness of each device with a status; readiness is None without a Ready condition.

    Devices without a row are left out.
    """
    for one in claim.status.devices:
        number = numbers.get(DeviceId(one.driver, one.pool, one.device))
        if number is not None:
            ready = next((said.status for said in one.conditions or () if said.type == "Ready"), None)
            yield number, None if ready is None else ready == "True"


def group_row(group: PodGroup | Workload, strings: Strings, pods: int, placed: int, claims: tuple[int, ...], fares: GroupRow | None) -> TableRow:  # fmt: skip
    """Return the row of a group or workload."""
    meta = group.metadata
    wanted, state = None, ""
    if isinstance(group, PodGroup):
        gang = group.spec.schedulingPolicy.gang
        wanted = gang.minCount if gang is not None else None
        state = next((one.type for one in group.status.conditions if one.status == "True"), "")
    kind = strings.number(group.kind)
    state_of_group, domain, waits = (fares.state, fares.domain, fares.waits_for) if fares is not None else ("", "", "")
    return (
        strings.number(meta.namespace),
        meta.name,
        kind,
        pods,
        placed,
        wanted,
        claims,
        strings.number(state),
        strings.number(state_of_group),
        domain,
        waits,
    )


def created(meta: ObjectMeta) -> float | None:
    """Return the creation time in seconds since the epoch, or None."""
    return parse_timestamp(meta.creationTimestamp) if meta.creationTimestamp else None


def owner_of(meta: ObjectMeta) -> str:
    """Return the controller of an object as `Job/name`, or ""."""
    for reference in meta.ownerReferences:
        if reference.controller:
            return f"{reference.kind}/{reference.name}"
    return ""
