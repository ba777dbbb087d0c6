"""Which slices make up a pool, and whether they can be trusted.

Only the newest generation counts. A pool is complete when as many slices exist as they say, and valid when no device
has two descriptions and every counter that a device draws on exists. The allocator asks with the slices that reach a node, pool status with all of them. Left out: what
is wrong within one slice, which the API server refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dray.api.quantity import ZERO, Quantity
from dray.api.reasons.devices import PoolCode, PoolProblem
from dray.api.types.resource import Device, DeviceCounterConsumption, ResourceSlice


class PoolName(NamedTuple):
    """A pool as the cluster knows it."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


def by_pool(slices: Iterable[ResourceSlice]) -> dict[PoolName, list[ResourceSlice]]:
    """Slices by pool, in the order of their names."""
    pools: dict[PoolName, list[ResourceSlice]] = {}
    for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
        pools.setdefault(PoolName(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return pools


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation of a pool; drivers delete older ones in their own time."""
    known = [*slices]
    generation = max((one.spec.pool.generation for one in known), default=0)
    return [one for one in known if one.spec.pool.generation == generation]


def problem_of(
    slices: Sequence[ResourceSlice], every: Sequence[ResourceSlice] | None = None, *, counters: bool = True
) -> PoolProblem | None:
    """Why slices of one generation make no pool that can be used; None where they do.

    `every` are all slices of the generation, where not all of them are given: they count, and may draw on counters. The
    first slice says how many there must be. Without `counters`, nothing draws on them.
    """
    every = slices if every is None else every
    problem = _missing(slices, len(every)) or _published_twice(slices)
    return problem or (_counter_problem(slices, every) if counters else None)


def _missing(slices: Sequence[ResourceSlice], published: int) -> PoolProblem | None:
    expected = [one.spec.pool.resourceSliceCount for one in slices]
    if expected[0] in (published, len(slices)):
        return None
    if len(set(expected)) > 1:
        return PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, published, tuple(sorted(set(expected))))
    return PoolProblem(PoolCode.SLICES_MISSING, published, (expected[0],))


def _published_twice(slices: Sequence[ResourceSlice]) -> PoolProblem | None:
    seen: set[str] = set()
    for one in slices:
        for device in one.spec.devices:
            if device.name in seen:
                return PoolProblem(PoolCode.DUPLICATE_DEVICE, device=device.name)
            seen.add(device.name)
    return None


def _counter_problem(slices: Sequence[ResourceSlice], every: Sequence[ResourceSlice]) -> PoolProblem | None:
    """Counter sets that stand twice, or devices, here or elsewhere, that draw on counters that are not."""
    sets = [set_ for one in slices for set_ in one.spec.sharedCounters]
    counters = {set_.name: set_.counters for set_ in sets}
    if len(counters) < len(sets):
        twice = next(set_.name for at, set_ in enumerate(sets) if set_.name in {other.name for other in sets[:at]})
        return PoolProblem(PoolCode.DUPLICATE_COUNTER_SET, counter_set=twice)
    for one in every:
        for device in one.spec.devices:
            for drawn in device.consumesCounters:
                known = counters.get(drawn.counterSet)
                if known is None:
                    return PoolProblem(PoolCode.UNKNOWN_COUNTER_SET, device=device.name, counter_set=drawn.counterSet)
                for name in drawn.counters.keys() - known.keys():
                    return PoolProblem(PoolCode.UNKNOWN_COUNTER, 0, (), device.name, drawn.counterSet, name)
    return None


class CountersLeft:
    """What is left of the counters of a pool while devices draw on them, and who may draw beside whom."""

    def __init__(self, left: dict[tuple[str, str], Quantity]) -> None:
        self._left = left
        self._groups: dict[str, frozenset[str]] = {}  # that all who draw on a counter set have in common

    @classmethod
    def of(cls, slices: Sequence[ResourceSlice], used: Collection[str]) -> CountersLeft:
        """What devices of these names, in use, leave of the counters of a pool."""
        left = cls(
            {
                (set_.name, name): Quantity.parse(counter.value)
                for one in slices
                for set_ in one.spec.sharedCounters
                for name, counter in set_.counters.items()
            }
        )
        for one in slices:
            for device in one.spec.devices:
                if device.consumesCounters and device.name in used:
                    left._draw(device)
        return left

    def left(self, counter_set: str, counter: str) -> Quantity:
        """What is left of a counter; nothing of one that is not published, or overdrawn."""
        return max(ZERO, self._left.get((counter_set, counter), ZERO))

    def fits(self, device: Device) -> bool:
        """Whether a device can draw what it needs, beside those that draw already."""
        return all(
            Quantity.parse(counter.value) <= self._left.get((drawn.counterSet, name), ZERO)
            for drawn in device.consumesCounters
            for name, counter in drawn.counters.items()
        ) and all(self._goes_with_others(drawn) for drawn in device.consumesCounters)

    def _goes_with_others(self, drawn: DeviceCounterConsumption) -> bool:
        """Whether a device has a compatibility group in common with the others, or nobody has any."""
        others, own = self._groups.get(drawn.counterSet), frozenset(drawn.compatibilityGroups)
        return others is None or others == own or bool(others & own)

    def draw(self, device: Device) -> bool:
        """Let a device draw what it needs; whether there was enough."""
        enough = self.fits(device)
        if enough:
            self._draw(device)
        return enough

    def _draw(self, device: Device) -> None:
        for drawn in device.consumesCounters:
            own = frozenset(drawn.compatibilityGroups)
            self._groups[drawn.counterSet] = self._groups.get(drawn.counterSet, own) & own
            for name, counter in drawn.counters.items():
                key = (drawn.counterSet, name)
                self._left[key] = self._left.get(key, ZERO) - Quantity.parse(counter.value)
