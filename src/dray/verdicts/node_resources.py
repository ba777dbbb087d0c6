"""Node resources (cpu, memory, huge pages) that the devices of a pod consume.

A device can represent an amount of a node resource (`mapping`), or need an additional amount for each pod and each
container that uses it (`overhead`). The sums for a pod's claims are written into its status and counted with its
requests. Pure. Left out: which devices a pod gets (`dray.allocator`), and the comparison with a node (`devices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from dray.api.allocations import DeviceId
from dray.api.podclaims import Use
from dray.api.quantity import ZERO, Quantity
from dray.api.types.core import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from dray.api.types.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
)
from dray.verdicts.demand import PodDemand, ResourceAmounts, amount, demand_of

NodeClaims = tuple[NodeAllocatableResourceClaimStatus, ...]
FindDevice = Callable[[DeviceId], Device | None]


class ClaimOverhead(NamedTuple):
    """Additional amount of one resource for each pod, and for each container that uses the claim."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


def node_claims(
    pod: Pod, uses: Iterable[Use], allocations: Mapping[str, AllocationResult], find: FindDevice
) -> NodeClaims:
    """Return what each claim of a pod takes from the node, ordered by claim name, without claims that take nothing."""
    entries: dict[str, list[str]] = {}
    for use in uses:
        entries.setdefault(use.claim or "", []).append(use.entry)
    told = []
    for name, allocation in sorted(allocations.items()):
        mapped, overhead = _taken(allocation.devices.results, find)
        if mapped or overhead:
            told.append(_status(name, mapped, overhead, _users(pod, entries.get(name, ()))))
    return tuple(told)


def is_mapped(allocation: AllocationResult | None, find: FindDevice) -> bool:
    """Return whether a device of an allocation represents node resources, which two pods cannot share.

    Returns False without an allocation. Devices that `find` does not know are ignored.
    """
    results = allocation.devices.results if allocation is not None else ()
    return any(
        resource.mapping is not None
        for result in results
        if (device := find(DeviceId(result.driver, result.pool, result.device))) is not None
        for resource in device.nodeAllocatableResources.values()
    )


def _taken(
    results: Sequence[DeviceRequestAllocationResult], find: FindDevice
) -> tuple[dict[str, Quantity], dict[str, ClaimOverhead]]:
    mapped: dict[str, Quantity] = {}
    overhead: dict[str, ClaimOverhead] = {}
    for result in results:
        device = find(DeviceId(result.driver, result.pool, result.device))
        for name, resource in device.nodeAllocatableResources.items() if device is not None else ():
            if device is not None and resource.mapping is not None:
                much = _mapped(resource.mapping, result, device)
                mapped[name] = mapped.get(name, ZERO) + much
            if resource.overhead is not None:
                known = overhead.get(name, ClaimOverhead())
                overhead[name] = ClaimOverhead(
                    _plus(known.per_pod, resource.overhead.perPod),
                    _plus(known.per_container, resource.overhead.perContainer),
                )
    return mapped, overhead


def _mapped(mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult, device: Device) -> Quantity:
    """Return the mapped amount: fixed for each device, or a multiple of the capacity that the allocation consumes.

    An allocation without consumed capacity has the whole device, so all of its capacity counts.
    """
    if not mapping.capacityKey:
        return Quantity.parse(mapping.deviceMultiplier or "0")
    key, bare = mapping.capacityKey, mapping.capacityKey.removeprefix(f"{result.driver}/")
    whole = {name: capacity.value for name, capacity in device.capacity.items()}
    consumed = result.consumedCapacity or whole
    much = Quantity.parse(consumed.get(key) or consumed.get(bare) or "0")
    by = Quantity.parse(mapping.capacityMultiplier or "1")
    return Quantity(much.unscaled * by.unscaled, much.scale + by.scale, much.format)


def _plus(known: Quantity | None, more: str | None) -> Quantity | None:
    if more is None:
        return known
    return Quantity.parse(more) if known is None else known + Quantity.parse(more)


def _users(pod: Pod, entries: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the containers that use a claim through one of these entries of `spec.resourceClaims`.

    Init containers come first. A container that names several of the entries is listed several times.
    """
    return tuple(
        container.name
        for container in (*pod.spec.initContainers, *pod.spec.containers)
        for claim in container.resources.claims
        if claim.name in entries
    )


def _status(
    name: str, mapped: Mapping[str, Quantity], overhead: Mapping[str, ClaimOverhead], users: tuple[str, ...]
) -> NodeAllocatableResourceClaimStatus:
    return NodeAllocatableResourceClaimStatus(
        resourceClaimName=name,
        containers=tuple(dict.fromkeys(users)),
        mapping=tuple(NodeAllocatableMappedResources(name=r, quantity=str(much)) for r, much in sorted(mapped.items())),
        overhead=tuple(
            NodeAllocatableOverheadResources(
                name=r,
                perPod=str(needed.per_pod) if needed.per_pod is not None else None,
                perContainer=str(needed.per_container) if needed.per_container is not None else None,
            )
            for r, needed in sorted(overhead.items())
        ),
    )


# Sums for a pod.


def amounts_of(claims: NodeClaims) -> ResourceAmounts:
    """Return the total of mapped amounts, and of overheads for the pod and for each container that uses a claim."""
    total: ResourceAmounts = {}
    for claim in claims:
        for mapped in claim.mapping:
            _add(total, mapped.name, mapped.quantity, 1)
        for needed in claim.overhead:
            _add(total, needed.name, needed.perPod, 1)
            _add(total, needed.name, needed.perContainer, len(claim.containers))
    return total


def _add(total: ResourceAmounts, name: str, much: str | None, times: int) -> None:
    if much is not None and times:
        total[name] = total.get(name, 0) + times * amount(name, much)


def with_claims(pod: Pod, demand: PodDemand, claims: NodeClaims) -> PodDemand:
    """Add what claims take to the demand of a pod. Resources that the pod requests as a whole already include it.

    Returns a new demand, or `demand` itself without claims.
    """
    if not claims:
        return demand
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    more = {name: much for name, much in amounts_of(claims).items() if name not in whole}
    together = {**demand.amounts}
    for name, much in more.items():
        together[name] = together.get(name, 0) + much
    return replace(
        demand,
        amounts=together,
        scored_cpu=demand.scored_cpu + more.get("cpu", 0),
        scored_memory=demand.scored_memory + more.get("memory", 0),
    )


def demand_on_node(pod: Pod) -> PodDemand:
    """Return the demand of a pod that has a node, including what its status says about its claims."""
    return with_claims(pod, demand_of(pod), pod.status.nodeAllocatableResourceClaimStatuses)


def uncovered(pod: Pod, own: ResourceAmounts, claims: NodeClaims) -> str:
    """Return the first resource whose pod-level request is less than what containers and claims need, or "" if none
    is.

    `own` is what the containers request. Resources of which claims take nothing are not compared.
    """
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    more = amounts_of(claims)
    for name, asked in whole.items():
        if name in more and own.get(name, 0) + more[name] > amount(name, asked):
            return name
    return ""
