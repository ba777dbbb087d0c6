"""Generator of random load, reproducible by seed.

Left out: the hardware for the pods (`dray.sim.hardware`, `dray.sim.profiles`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from dray.replay.traces import TraceError, TracePod

ARRIVALS = ("poisson", "even", "daily")
DURATIONS = ("exponential", "lognormal", "even")
DAY = 86400.0
_SPREAD = 1.5  # sigma of lognormal durations, with which a few pods run very long


class LoadShape(msgspec.Struct, frozen=True):
    """Parameters of generated load. `sizes` gives the relative frequency of each number of devices.

    A fraction of the arrivals (`grouped`) are groups of `group_size` pods that arrive together.
    """

    pods: int
    seconds: float = DAY
    mean_runtime: float = 3600.0
    arrival: str = "poisson"
    duration: str = "exponential"
    sizes: Mapping[int, float] = MappingProxyType({1: 1.0})
    grouped: float = 0.0
    group_size: int = 4
    cpu: int = 1000
    seed: int = 0


def generate(shape: LoadShape) -> list[TracePod]:
    """Generate pods, ordered by time. Raises TraceError for invalid parameters."""
    _check(shape)
    rng = random.Random(shape.seed)
    runtime, sizes = _runtimes(shape, rng), [*shape.sizes]
    weights, pods = [shape.sizes[size] for size in sizes], []
    for number, members in enumerate(_members(shape, rng)):
        (size,) = rng.choices(sizes, weights)
        group = f"group-{number}" if members > 1 else ""
        pods += [(size, group)] * members
    times = sorted(_times(shape, rng, _arrivals(pods)))
    return [*_named(pods, times, runtime, shape.cpu)]


def _named(
    pods: list[tuple[int, str]], times: list[float], runtime: Callable[[], float], cpu: int
) -> Iterator[TracePod]:
    """Yield the pods with names and times. Pods of a group share arrival and run time."""
    moments = iter(times)
    last, at, runs = "", 0.0, 0.0
    for number, (size, group) in enumerate(pods):
        if not group or group != last:
            at, runs = next(moments), runtime()
        last = group
        yield TracePod(f"pod-{number:06}", at, runs, size, cpu=cpu, group=group)


def _arrivals(pods: list[tuple[int, str]]) -> int:
    """Return the number of arrivals; a group counts once."""
    return sum(1 for number, (_, group) in enumerate(pods) if not group or number == 0 or pods[number - 1][1] != group)


def _members(shape: LoadShape, rng: random.Random) -> Iterator[int]:
    left = shape.pods
    while left:
        members = min(left, shape.group_size if rng.random() < shape.grouped else 1)
        left -= members
        yield members


def _times(shape: LoadShape, rng: random.Random, count: int) -> list[float]:
    """Return `count` arrival times of the configured distribution, unsorted."""
    if shape.arrival == "even":
        return [shape.seconds * number / count for number in range(count)]
    if shape.arrival == "poisson":
        return [rng.uniform(0, shape.seconds) for _ in range(count)]
    times: list[float] = []
    while len(times) < count:  # rejection sampling: twice the mean rate by day, zero at night
        at = rng.uniform(0, shape.seconds)
        if rng.random() < (1 - math.cos(2 * math.pi * at / DAY)) / 2:
            times.append(at)
    return times


def _runtimes(shape: LoadShape, rng: random.Random) -> Callable[[], float]:
    mean = shape.mean_runtime
    if shape.duration == "even":
        return lambda: mean
    if shape.duration == "exponential":
        return lambda: rng.expovariate(1 / mean)
    return lambda: rng.lognormvariate(math.log(mean) - _SPREAD**2 / 2, _SPREAD)


def _check(shape: LoadShape) -> None:
    """Raise TraceError if a parameter is invalid."""
    if shape.pods < 1:
        raise TraceError(f"pods: expected at least one pod, got {shape.pods}")
    for name, seconds in (("seconds", shape.seconds), ("runtime", shape.mean_runtime)):
        if not 0 < seconds < math.inf:
            raise TraceError(f"{name}: expected a number above 0, got {seconds}")
    if shape.arrival not in ARRIVALS or shape.duration not in DURATIONS:
        raise TraceError(f"expected arrival of {', '.join(ARRIVALS)}, and duration of {', '.join(DURATIONS)}")
    if not shape.sizes or any(size < 0 or weight <= 0 for size, weight in shape.sizes.items()):
        raise TraceError("sizes: expected numbers of devices from 0, each with a weight above 0")
    if not 0 <= shape.grouped <= 1 or shape.group_size < 1:
        raise TraceError("expected a part from 0 to 1 that is grouped, and groups of at least one pod")
