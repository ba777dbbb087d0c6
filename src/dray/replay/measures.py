"""Figures of a simulation: utilisation, fragmentation, waiting times by reason, and cost, collected while it runs.

A `Meter` observes a cluster and can return `Figures` at any time, so an interrupted run also has a report. Left out:
showing figures (`dray.replay.report`) and choosing what to compare (`replay`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from dray.api.allocations import DeviceId
from dray.api.naming import name_of
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.core.attempt import Promise
from dray.sim.cluster import Cluster
from dray.sim.demands import claim_for_devices
from dray.sim.uses import devices_of

POINTS = 240  # maximum number of points per series; a chart cannot show more
SAMPLES = 96  # samples of fragmentation per run; each asks the allocator several questions
HOUR = 3600.0

Point = tuple[float, float]  # seconds, value


class PlacedAt(msgspec.Struct, frozen=True):
    """Node and devices of a pod, and when it came and was placed."""

    pod: str
    node: str
    devices: frozenset[DeviceId]
    came: float
    placed: float


class WaitingTimes(msgspec.Struct, frozen=True):
    """Waiting times of pods for a node, in seconds. Pods that still wait count with their time so far."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    longest: float = 0.0


class ReasonTime(msgspec.Struct, frozen=True):
    """Effect of one reason: number of pods kept waiting, and their total seconds."""

    pods: int
    seconds: float


class Utilisation(msgspec.Struct, frozen=True):
    """Fraction of published devices in use: mean, by driver, and over time."""

    mean: float
    by_driver: Mapping[str, float]
    over_time: Sequence[Point]


class Cost(msgspec.Struct, frozen=True):
    """Total cost of the nodes, and the part spent on unused devices."""

    total: float
    idle: float


class Figures(msgspec.Struct, frozen=True):
    """Results of a run."""

    seconds: float
    is_complete: bool
    nodes: int
    devices: int
    came: int
    placed: int
    waiting_now: int
    ended: int
    waiting: WaitingTimes
    reasons: Mapping[str, ReasonTime]
    utilisation: Utilisation
    fragmentation: Mapping[str, Sequence[Point]]  # by class: largest claim that fits on a node, over time
    cost: Cost | None = None


class Prices:
    """Hourly prices of nodes by label; the first matching rule applies."""

    def __init__(self, rules: Sequence[tuple[str, str, float]]) -> None:
        self._rules = rules  # key, value and price; an empty key matches every node

    def of(self, node: Node) -> float:
        """Return the hourly price of a node, 0 if no rule matches."""
        labels = node.metadata.labels
        return next((price for key, value, price in self._rules if not key or labels.get(key) == value), 0.0)

    def __bool__(self) -> bool:
        return bool(self._rules)


class _StepSeries:
    """A value that changes in steps, with its integral over time."""

    def __init__(self, now: float) -> None:
        self.points: list[Point] = [(now, 0.0)]
        self.sum = 0.0  # integral of the value over time, in seconds

    def set(self, now: float, value: float) -> None:
        """Record a new value from the given time on."""
        since, before = self.points[-1]
        if value == before:
            return
        self.sum += (now - since) * before
        if now == since:
            self.points[-1] = now, value
        else:
            self.points.append((now, value))

    def until(self, now: float) -> float:
        """Return the integral of the value up to the given time."""
        since, value = self.points[-1]
        return self.sum + (now - since) * value


class Meter:
    """Observer that collects figures of a cluster. Call `hardware_changed` when nodes or slices change."""

    def __init__(self, cluster: Cluster, prices: Prices | None = None) -> None:
        self._cluster = cluster
        self._prices = prices or Prices(())
        self._begun = cluster.now
        self._came: dict[str, float] = {}  # waiting pods → start of waiting
        self._why: dict[str, tuple[float, str]] = {}  # refused pods → time and reason of the last refusal
        self._waited: list[float] = []
        self._reasons: defaultdict[str, float] = defaultdict(float)
        self._kept_out: dict[str, set[str]] = {}
        self._held: Counter[DeviceId] = Counter()  # devices → number of pods using them
        self._of_pod: dict[str, frozenset[DeviceId]] = {}
        self._counts = Counter[str]()
        self._published: Counter[str] = Counter()
        self._used: dict[str, _StepSeries] = {}
        self._there: dict[str, _StepSeries] = {}
        self._paid = _StepSeries(cluster.now)
        self._largest: dict[str, list[Point]] = {}
        self.placements: dict[str, PlacedAt] = {}
        self.hardware_changed()
        for pod in cluster.all(Pod):
            if pod.spec.nodeName:
                self._hold(pod)
        cluster.observers.append(self)

    # -- observer methods

    def came(self, now: float, pod: Pod) -> None:
        self._counts["came"] += 1
        self._came[pod.metadata.uid] = now

    def refused(self, now: float, pod: Pod, why: Unschedulable) -> None:
        uid, code = pod.metadata.uid, main_reason(why)
        self._account(now, uid)
        self._why[uid] = now, code
        self._kept_out.setdefault(code, set()).add(uid)

    def placed(self, now: float, pod: Pod, promise: Promise) -> None:
        uid = pod.metadata.uid
        self._account(now, uid)
        self._counts["placed"] += 1
        came = self._came.pop(uid, now)
        self._waited.append(now - came)
        self._hold(pod)
        self.placements[uid] = PlacedAt(name_of(pod), pod.spec.nodeName, self._of_pod[uid], came, now)

    def ended(self, now: float, pod: Pod) -> None:
        """Record the end of a pod: its waiting time and the devices it has used.

        `now` is in seconds. Has no effect if the end was recorded already.
        """
        uid = pod.metadata.uid
        if uid not in self._came and uid not in self._of_pod:
            return  # already reported
        self._account(now, uid)
        self._counts["ended"] += 1
        since = self._came.pop(uid, None)
        if since is not None:
            self._waited.append(now - since)
        for device in self._of_pod.pop(uid, ()):
            self._held[device] -= 1
            if not self._held[device]:
                del self._held[device]
                self._use(device.driver, -1)

    def hardware_changed(self) -> None:
        """Update the number of published devices and the price of all nodes."""
        now = self._cluster.now
        self._published = Counter()
        for piece in self._cluster.all(ResourceSlice):
            self._published[piece.spec.driver] += len(piece.spec.devices)
        for driver in {*self._published, *self._there}:
            self._series(self._there, driver).set(now, float(self._published[driver]))
        self._paid.set(now, sum(map(self._prices.of, self._cluster.all(Node))) if self._prices else 0.0)

    def sample(self) -> None:
        """Record for every class the largest claim that fits now."""
        for class_ in self._cluster.all(DeviceClass):
            points = self._largest.setdefault(class_.metadata.name, [])
            last = int(points[-1][1]) if points else 0
            points.append((self._cluster.now, float(largest_claim(self._cluster, class_.metadata.name, last))))

    # -- results

    def figures(self, *, is_complete: bool = True) -> Figures:
        """Return the figures up to now."""
        now = self._cluster.now
        waited = sorted([*self._waited, *(now - since for since in self._came.values())])
        utilisation = self._utilisation(now)
        paid = self._paid.until(now) / HOUR
        return Figures(
            seconds=now - self._begun,
            is_complete=is_complete,
            nodes=sum(1 for _ in self._cluster.all(Node)),
            devices=sum(self._published.values()),
            came=self._counts["came"],
            placed=self._counts["placed"],
            waiting_now=len(self._came),
            ended=self._counts["ended"],
            waiting=_waiting(waited),
            reasons=self._reason_times(now),
            utilisation=utilisation,
            fragmentation={name: thinned(points) for name, points in self._largest.items()},
            cost=Cost(paid, paid * (1 - utilisation.mean)) if self._prices else None,
        )

    def _utilisation(self, now: float) -> Utilisation:
        there = {driver: series.until(now) for driver, series in self._there.items()}
        used = {driver: series.until(now) for driver, series in self._used.items()}
        by_driver = {driver: used.get(driver, 0.0) / all_ for driver, all_ in sorted(there.items()) if all_}
        mean = sum(used.values()) / sum(there.values()) if sum(there.values()) else 0.0
        return Utilisation(mean, by_driver, _shares([*self._used.values()], [*self._there.values()], self._begun, now))

    def _reason_times(self, now: float) -> dict[str, ReasonTime]:
        seconds = defaultdict(float, self._reasons)
        for since, code in self._why.values():
            seconds[code] += now - since
        return {code: ReasonTime(len(pods), seconds[code]) for code, pods in sorted(self._kept_out.items())}

    def _account(self, now: float, uid: str) -> None:
        """Add the time since the last refusal to its reason."""
        since, code = self._why.pop(uid, (now, ""))
        if code:
            self._reasons[code] += now - since

    def _hold(self, pod: Pod) -> None:
        devices = self._of_pod[pod.metadata.uid] = frozenset(
            use.device for use in devices_of(self._cluster.model.objects, pod)
        )
        for device in devices:
            self._held[device] += 1
            if self._held[device] == 1:
                self._use(device.driver, 1)

    def _use(self, driver: str, more: int) -> None:
        series = self._series(self._used, driver)
        series.set(self._cluster.now, series.points[-1][1] + more)

    def _series(self, kept: dict[str, _StepSeries], driver: str) -> _StepSeries:
        return kept.setdefault(driver, _StepSeries(self._begun))


def main_reason(why: Unschedulable) -> str:
    """Return the code of the reason that keeps a pod from most nodes, or of the problem with its claims.

    "no-nodes" if there is no reason.
    """
    if why.problem is not None:
        return why.problem.code
    if why.wrong is not None:
        return why.wrong.code
    most = max(why.reasons.items(), key=lambda one: one[1].bit_count(), default=None)
    return most[0].code if most is not None else "no-nodes"


def largest_claim(cluster: Cluster, class_name: str, guess: int = 0) -> int:
    """Return the largest number of devices of a class that a claim can get on some node.

    Each number tried examines every changed node, so the search starts at `guess`.
    """
    fits, too_many, step = guess, guess + 1, 1
    while fits and not _fits(cluster, class_name, fits):
        fits, too_many, step = max(fits - step, 0), fits, 2 * step
    while too_many > guess and _fits(cluster, class_name, too_many):
        fits, too_many, step = too_many, too_many + step, 2 * step
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _fits(cluster, class_name, middle):
            fits = middle
        else:
            too_many = middle
    return fits


def _fits(cluster: Cluster, class_name: str, count: int) -> bool:
    return bool(cluster.model.state.index.fits([claim_for_devices(class_name, count)]))


def _waiting(waited: Sequence[float]) -> WaitingTimes:
    if not waited:
        return WaitingTimes()
    count = len(waited)
    return WaitingTimes(sum(waited) / count, waited[(count - 1) // 2], waited[-(-95 * count // 100) - 1], waited[-1])


def _shares(used: Sequence[_StepSeries], there: Sequence[_StepSeries], begun: float, now: float) -> list[Point]:
    """Return the fraction in use as a series of means over equal time spans."""
    if now <= begun:
        return []
    some, all_ = _means(used, begun, now), _means(there, begun, now)
    span = (now - begun) / POINTS
    return [(begun + number * span, a / b if b else 0.0) for number, (a, b) in enumerate(zip(some, all_, strict=True))]


def _means(several: Sequence[_StepSeries], begun: float, now: float) -> list[float]:
    """Return the sum of step functions, as means over equal time spans."""
    span, sums = (now - begun) / POINTS, [0.0] * POINTS
    for series in several:
        ends = [*(at for at, _ in series.points[1:]), now]
        for (start, value), end in zip(series.points, ends, strict=True):
            _spread(sums, (start - begun) / span, (end - begun) / span, value)
    return sums


def _spread(sums: list[float], start: float, end: float, value: float) -> None:
    """Add a value to each time span in proportion to the covered part of the span.

    `start` and `end` are in spans; what lies beyond POINTS spans is dropped.
    """
    number = int(start)
    while value and number < POINTS and number < end:
        sums[number] += value * (min(end, number + 1) - max(start, number))
        number += 1


def thinned(points: Sequence[Point]) -> list[Point]:
    """Return at most POINTS points of a series, evenly chosen."""
    step = -(-len(points) // POINTS) or 1
    return [*points[::step]]
