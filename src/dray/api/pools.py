"""Resource pools: which slices form a pool, and whether the pool can be used.

Only slices of the newest generation count. A pool is complete if the number of slices equals the published count.
It is valid if no device is published twice and every consumed counter exists. The allocator passes the slices
that a node can reach, pool status passes all. The API server rejects slices that are invalid by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from dray.api.quantity import ZERO, Quantity
from dray.api.reasons.devices import PoolCode, PoolProblem
from dray.api.types.resource import Device, DeviceCounterConsumption, ResourceSlice


class PoolName(NamedTuple):
    """Cluster-wide identity of a pool: driver and pool name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


def by_pool(slices: Iterable[ResourceSlice]) -> dict[PoolName, list[ResourceSlice]]:
    """Return the slices by pool, in each pool sorted by name. Slices of all generations are included."""
    pools: dict[PoolName, list[ResourceSlice]] = {}
    for slice_ in sorted(slices, key=lambda slice_: slice_.metadata.name):
        pools.setdefault(PoolName(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return pools


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices with the newest generation; drivers delete older ones later.

    All slices must belong to one pool.
    """
    known = [*slices]
    generation = max((one.spec.pool.generation for one in known), default=0)
    return [one for one in known if one.spec.pool.generation == generation]


def problem_of(
    slices: Sequence[ResourceSlice], every: Sequence[ResourceSlice] | None = None, *, counters: bool = True
) -> PoolProblem | None:
    """Return why slices of one generation do not form a usable pool, or None if they do.

    `every` are all slices of the generation, if `slices` is only a part: all of them are counted, and their
    devices may consume counters. The first slice determines the expected number. With `counters` False, counters
    are ignored.
    """
    every = slices if every is None else every
    problem = _missing(slices, len(every)) or _published_twice(slices)
    return problem or (_counter_problem(slices, every) if counters else None)


def _missing(slices: Sequence[ResourceSlice], published: int) -> PoolProblem | None:
    """Return the problem if the number of slices is not the expected one, otherwise None.

    `published` is the number of all slices of the generation.
    """
    expected = [one.spec.pool.resourceSliceCount for one in slices]
    if expected[0] in (published, len(slices)):
        return None
    if len(set(expected)) > 1:
        return PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, published, tuple(sorted(set(expected))))
    return PoolProblem(PoolCode.SLICES_MISSING, published, (expected[0],))


def _published_twice(slices: Sequence[ResourceSlice]) -> PoolProblem | None:
    """Return the problem if two devices have the same name, otherwise None."""
    seen: set[str] = set()
    for one in slices:
        for device in one.spec.devices:
            if device.name in seen:
                return PoolProblem(PoolCode.DUPLICATE_DEVICE, device=device.name)
            seen.add(device.name)
    return None


def _counter_problem(slices: Sequence[ResourceSlice], every: Sequence[ResourceSlice]) -> PoolProblem | None:
    """Return the problem of a duplicate counter set, or of a consumed counter that does not exist, or None."""
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
    """Remaining counters of a pool, and the compatibility groups of the devices in use."""

    def __init__(self, left: dict[tuple[str, str], Quantity]) -> None:
        self._left = left
        self._groups: dict[str, frozenset[str]] = {}  # counter set → compatibility groups common to all its consumers

    @classmethod
    def of(cls, slices: Sequence[ResourceSlice], used: Collection[str]) -> CountersLeft:
        """Return the counters of a pool minus the consumption of the devices in `used`."""
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
        """Return the remaining amount of a counter; zero if it does not exist or is overdrawn."""
        return max(ZERO, self._left.get((counter_set, counter), ZERO))

    def fits(self, device: Device) -> bool:
        """Return whether enough counters remain for a device and it is compatible with the devices in use.

        A counter that does not exist counts as zero. A device that consumes no counters always fits.
        """
        return all(
            Quantity.parse(counter.value) <= self._left.get((drawn.counterSet, name), ZERO)
            for drawn in device.consumesCounters
            for name, counter in drawn.counters.items()
        ) and all(self._goes_with_others(drawn) for drawn in device.consumesCounters)

    def _goes_with_others(self, drawn: DeviceCounterConsumption) -> bool:
        """Return whether a device shares a compatibility group with the other consumers, or neither has any.

        Also true if the counter set has no other consumers.
        """
        others, own = self._groups.get(drawn.counterSet), frozenset(drawn.compatibilityGroups)
        return others is None or others == own or bool(others & own)

    def draw(self, device: Device) -> bool:
        """Subtract the consumption of a device if `fits` is true, otherwise change nothing. Returns whether it did."""
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
