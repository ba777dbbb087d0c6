"""How many devices of a pool are allocated, unavailable and available: pure counting over slices and claims.

Each published device counts exactly once, so the numbers of a pool always add up: a device that a claim holds is
allocated, whatever else is true of it; another one is unavailable if it is tainted or if its pool cannot be used; the
rest is available. A partition for which too little is left of its counters is unavailable. Admin access holds no device,
and neither does an allocation of a device that is no longer published. Left out: where taints come from (callers merge
DeviceTaintRules), what a device is (`dray.api.availability`), and what is left of partitions and shares (`summaries`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from dray.api.availability import DeviceHolders, DeviceState, PoolUse, PublishedPool
from dray.api.pools import PoolName, by_pool, newest, problem_of
from dray.api.reasons.devices import PoolProblem, PoolState
from dray.api.reasons.wording import pool_problem
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.controllers.poolstatus.summaries import Summaries, summarize

MOST_PROBLEMS = 10  # that a status lists for all pools together, as the API has it
DEFAULT_LIMIT = 100
LONGEST_PROBLEM = 256  # bytes, as the API has it

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
    is_incomplete: bool = False  # slices are missing, so the counts say nothing
    summaries: Summaries = Summaries()

    @property
    def available(self) -> int:
        return self.total - self.allocated - self.unavailable


class PoolStatusAnswer(NamedTuple):
    """The answer to a request: the first pools by name, how many there are in all, and what is wrong with pools.

    A pool that is not among the first is not counted, but that it cannot be used is told.
    """

    pools: tuple[PoolCount, ...]
    matching: int
    problems: tuple[str, ...] = ()


def answer(
    slices: Iterable[ResourceSlice],
    claims_of: ClaimsOf,
    pool: str | None = None,
    limit: int = DEFAULT_LIMIT,
    partition_type: str | None = None,
) -> PoolStatusAnswer:
    """Count the pools that these slices make up, or only the one of a name.

    `partition_type` is the attribute that tells partitions apart in pools that do not say.
    """
    pools = by_pool(one for one in slices if pool is None or one.spec.pool.name == pool)
    names = sorted(pools)
    counted = tuple(count(pools[key], claims_of(*key), partition_type) for key in names[:limit])
    problems = [_about(one.name, one.problem) for one in counted if one.problem]
    problems += _problems_beyond((pools[key] for key in names[limit:]), MOST_PROBLEMS - len(problems))
    return PoolStatusAnswer(counted, len(pools), tuple(problems[:MOST_PROBLEMS]))


def _problems_beyond(pools: Iterable[Sequence[ResourceSlice]], most: int) -> list[str]:
    """What keeps pools from being used that are not counted; none where there is no room for it."""
    wrong = (
        _about(current[0].spec.pool.name, _told(problem))
        for current in map(newest, pools)
        if (problem := problem_of(current)) is not None
    )
    return [*islice(wrong, max(most, 0))]


def _about(pool: str, problem: str) -> str:
    return shortened(f"pool {pool}: {problem}")


def count(
    slices: Sequence[ResourceSlice], claims: Iterable[ResourceClaim], partition_type: str | None = None
) -> PoolCount:
    """Count one pool. There is at least one slice, and all are of that pool."""
    first = slices[0].spec
    return count_use(
        PoolUse(PublishedPool.of(PoolName(first.driver, first.pool.name), slices), DeviceHolders(claims)),
        partition_type,
    )


def count_use(use: PoolUse, partition_type: str | None = None) -> PoolCount:
    """Count the devices of a pool that is published."""
    pool, problem = use.pool, use.pool.problem
    shares = (share for name in use.held for _, share in use.shares(name))
    summaries = Summaries() if problem else summarize(pool.slices, use.held, shares, partition_type)
    problems = [_told(problem)] if problem else [*summaries.problems]
    free = sum(use.state(name) is DeviceState.FREE for name in pool.devices)
    return PoolCount(
        driver=pool.name.driver,
        name=pool.name.pool,
        node=pool.node or None,
        generation=pool.slices[0].spec.pool.generation,
        slices=len(pool.slices),
        total=len(pool.devices),
        allocated=len(use.held),
        unavailable=len(pool.devices) - len(use.held) - free,
        problem=shortened("; ".join(problems)) if problems else None,
        is_incomplete=problem is not None and problem.state is PoolState.INCOMPLETE,
        summaries=summaries,
    )


def _told(problem: PoolProblem) -> str:
    text = pool_problem(problem)
    return f"PoolIncomplete: {text}" if problem.state is PoolState.INCOMPLETE else text


def shortened(text: str) -> str:
    """At most as many bytes as the API takes; says where something was cut off."""
    if len(text.encode()) <= LONGEST_PROBLEM:
        return text
    return text.encode()[: LONGEST_PROBLEM - 3].decode(errors="ignore") + "..."


# What is written


def complete_status(found: PoolStatusAnswer, now: str) -> dict[str, Any]:
    """The status of a request that could be answered."""
    shown = f"{len(found.pools)} pools" if len(found.pools) != 1 else "1 pool"
    message = f"Processed {shown}" if len(found.pools) == found.matching else f"Processed {shown} of {found.matching}"
    return {
        "observationTime": now,
        "poolCount": found.matching,
        "pools": [_pool_tree(pool) for pool in found.pools],
        "validationErrors": [*found.problems],
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
    }
    if not pool.is_incomplete:  # as in Kubernetes: what is published so far must not be taken for the pool
        tree |= {
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
    if pool.summaries.partitions:
        tree["partitionSummary"] = list(pool.summaries.partitions)
    if pool.summaries.shareable is not None:
        tree["shareableSummary"] = pool.summaries.shareable
    return tree


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
