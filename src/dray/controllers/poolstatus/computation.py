"""How many devices of a pool are allocated, unavailable and available: pure counting over slices and claims.

Each published device counts exactly once, so the numbers of a pool always add up: a device that a claim holds is
allocated, whatever else is true of it; another one is unavailable if it is tainted or if its pool cannot be used; the
rest is available. Admin access holds no device, and neither does an allocation of a device that is no longer published.
Left out: where taints come from (callers merge DeviceTaintRules), and the parts of shared devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.controllers.poolstatus.validation import current, problem_of, shortened

MOST_PROBLEMS = 10  # that a status lists for all pools together, as the API has it
DEFAULT_LIMIT = 100
_KEEPS_OUT = ("NoSchedule", "NoExecute")

ClaimsOf = Callable[[str, str], Iterable[ResourceClaim]]
"""The claims that hold devices of a driver's pool; others may be among them."""


class PoolCount(NamedTuple):
    """What is known of one pool. `available` is what remains."""

    driver: str
    name: str
    node: str | None  # where all slices are of one node
    generation: int
    slices: int
    total: int
    allocated: int
    unavailable: int
    problem: str | None

    @property
    def available(self) -> int:
        return self.total - self.allocated - self.unavailable


class Found(NamedTuple):
    """The answer to a request: the first pools by name, and how many there are in all."""

    pools: tuple[PoolCount, ...]
    matching: int


def answer(
    slices: Iterable[ResourceSlice], claims_of: ClaimsOf, pool: str | None = None, limit: int = DEFAULT_LIMIT
) -> Found:
    """Count the pools that these slices make up, or only the one of a name."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for one in slices:
        spec = one.spec
        if pool is None or spec.pool.name == pool:
            pools.setdefault((spec.driver, spec.pool.name), []).append(one)
    chosen = sorted(pools)[:limit]
    return Found(tuple(count(pools[key], claims_of(*key)) for key in chosen), len(pools))


def count(slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]) -> PoolCount:
    """Count one pool. There is at least one slice, and all are of that pool."""
    newest = current(slices)
    spec = newest[0].spec
    problem = problem_of(newest)
    published = {device.name for one in newest for device in one.spec.devices}
    held = published.intersection(_held(spec.driver, spec.pool.name, claims))
    unusable = published if problem else _tainted(newest)
    return PoolCount(
        driver=spec.driver,
        name=spec.pool.name,
        node=_node(newest),
        generation=spec.pool.generation,
        slices=len(newest),
        total=len(published),
        allocated=len(held),
        unavailable=len(unusable - held),
        problem=shortened(problem) if problem else None,
    )


def _held(driver: str, pool: str, claims: Iterable[ResourceClaim]) -> set[str]:
    return {
        result.device
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.pool == pool and result.driver == driver and not result.adminAccess
    }


def _tainted(slices: Iterable[ResourceSlice]) -> set[str]:
    return {
        device.name
        for one in slices
        for device in one.spec.devices
        if device.taints and any(taint.effect in _KEEPS_OUT for taint in device.taints)
    }


def _node(slices: Sequence[ResourceSlice]) -> str | None:
    nodes = {one.spec.nodeName for one in slices}
    return nodes.pop() if len(nodes) == 1 else None


# What is written


def complete_status(found: Found, now: str) -> dict[str, Any]:
    """The status of a request that could be answered."""
    problems = [shortened(f"pool {pool.name}: {pool.problem}") for pool in found.pools if pool.problem]
    shown = f"{len(found.pools)} pools" if len(found.pools) != 1 else "1 pool"
    message = f"Processed {shown}" if len(found.pools) == found.matching else f"Processed {shown} of {found.matching}"
    return {
        "observationTime": now,
        "poolCount": found.matching,
        "pools": [_pool_tree(pool) for pool in found.pools],
        "validationErrors": problems[:MOST_PROBLEMS],
        "conditions": [_condition("Complete", "CalculationComplete", message, now)],
    }


def failed_status(cause: Exception, now: str) -> dict[str, Any]:
    """The status of a request whose computation raised."""
    message = shortened(f"{type(cause).__name__}: {cause}")
    return {
        "observationTime": now,
        "poolCount": 0,
        "conditions": [_condition("Failed", "CalculationFailed", message, now)],
    }


def _pool_tree(pool: PoolCount) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "driver": pool.driver,
        "poolName": pool.name,
        "generation": pool.generation,
        "resourceSliceCount": pool.slices,
        "totalDevices": pool.total,
        "allocatedDevices": pool.allocated,
        "availableDevices": pool.available,
        "unavailableDevices": pool.unavailable,
    }
    if pool.node:
        tree["nodeName"] = pool.node
    if pool.problem:
        tree["validationError"] = pool.problem
    return tree


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
