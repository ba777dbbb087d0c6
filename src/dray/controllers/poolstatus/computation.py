"""Counts the allocated, unavailable and available devices of a pool from slices and claims. Pure.

Each published device counts exactly once, so the numbers of a pool always add up. A device that a claim holds is
allocated. Any other device is unavailable if it is tainted, if its pool cannot be used, or if too little is left of
the counters that it needs. The rest is available. Admin access holds no device, and neither does an allocation of a
device that is no longer published. Left out: where taints come from (callers merge DeviceTaintRules), the state of a
device (`dray.api.availability`), and what is left of partitions and shares (`summaries`).
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

MOST_PROBLEMS = 10  # limit of the API for the problems of all pools together
DEFAULT_LIMIT = 100
LONGEST_PROBLEM = 256  # bytes, the limit of the API

ClaimsOf = Callable[[str, str], Iterable[ResourceClaim]]
"""Returns the claims that hold devices of a driver's pool, possibly among others."""


class PoolCount(NamedTuple):
    """Numbers of devices of one pool, and the pool's problem if it has one.

    `problem` is None if the pool has none. Devices in `unavailable` are neither allocated nor free.
    """

    driver: str
    name: str
    node: str | None  # the node, if all slices belong to one node
    generation: int
    slices: int
    total: int
    allocated: int
    unavailable: int
    problem: str | None
    is_incomplete: bool = False  # slices are missing, so the counts are meaningless
    summaries: Summaries = Summaries()

    @property
    def available(self) -> int:
        return self.total - self.allocated - self.unavailable


class PoolStatusAnswer(NamedTuple):
    """Answer to a request: the first pools by name, the number of all matching pools, and problems of pools.

    Pools beyond the limit are not counted, but their problems are listed.
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
    """Return the device counts of the pools that these slices form, at most `limit` pools.

    With `pool`, only the pool with this name is counted. `partition_type` is the attribute for partition types in
    pools whose slices name none.
    """
    pools = by_pool(one for one in slices if pool is None or one.spec.pool.name == pool)
    names = sorted(pools)
    counted = tuple(count(pools[key], claims_of(*key), partition_type) for key in names[:limit])
    problems = [_about(one.name, one.problem) for one in counted if one.problem]
    problems += _problems_beyond((pools[key] for key in names[limit:]), MOST_PROBLEMS - len(problems))
    return PoolStatusAnswer(counted, len(pools), tuple(problems[:MOST_PROBLEMS]))


def _problems_beyond(pools: Iterable[Sequence[ResourceSlice]], most: int) -> list[str]:
    """Return up to `most` problems of pools that are not counted.

    `pools` holds the slices of each pool. Pools without a problem are skipped.
    """
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
    """Return the device counts of one pool. `slices` must not be empty and must all be of that pool.

    `partition_type` is the attribute for partition types where slices name none.
    """
    first = slices[0].spec
    return count_use(
        PoolUse(PublishedPool.of(PoolName(first.driver, first.pool.name), slices), DeviceHolders(claims)),
        partition_type,
    )


def count_use(use: PoolUse, partition_type: str | None = None) -> PoolCount:
    """Return the device counts of a published pool.

    `partition_type` is the attribute for partition types where slices name none. An incomplete or invalid pool has no
    summaries.
    """
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
    """Return the text cut to the number of bytes that the API allows, with "..." at the end if it was cut.

    The "..." is part of that number.
    """
    if len(text.encode()) <= LONGEST_PROBLEM:
        return text
    return text.encode()[: LONGEST_PROBLEM - 3].decode(errors="ignore") + "..."


# Status trees


def complete_status(found: PoolStatusAnswer, now: str) -> dict[str, Any]:
    """Return the status of a request that was answered.

    `now` is the API timestamp to write.
    """
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
    """Return the status of a request whose computation raised an exception.

    `now` is the API timestamp to write.
    """
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
    if not pool.is_incomplete:  # as in Kubernetes: counts of an incomplete pool would be misleading
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
