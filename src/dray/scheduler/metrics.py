"""The figures that the scheduler publishes, under the names that dashboards know."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from functools import cache

from prometheus_client import Counter, Gauge

from dray.client.metrics import DurationFamily
from dray.scheduler.queue import SchedulingQueue

SHOW_SECONDS = 1.0  # how often the queue is counted at the most

_FAST = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)

PENDING = Gauge("scheduler_pending_pods", "Pods that wait, by part of the queue", ["queue"])
UNSCHEDULABLE = Gauge(
    "scheduler_unschedulable_pods", "Unschedulable pods, by the plugin that refused", ["plugin", "profile"]
)
ATTEMPTS = Counter("scheduler_schedule_attempts", "Attempts to place a pod, by result", ["result", "profile"])
POINT_SECONDS = DurationFamily(
    "scheduler_framework_extension_point_duration_seconds",
    "Time spent at each step of an attempt",
    ["extension_point", "status", "profile"],
    _FAST,
)
ATTEMPT_SECONDS = DurationFamily(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of a whole attempt without binding",
    ["result", "profile"],
    _FAST,
)
ALTERNATIVES = Counter(
    "scheduler_dynamic_resources_alternatives", "Requests allocated, by index of the alternative chosen", ["index"]
)


@cache
def _attempts(result: str, profile: str) -> Counter:
    """The series of a result; looking it up costs more than counting."""
    return ATTEMPTS.labels(result, profile)


class Figures:
    """What one scheduler counts."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._shown = -SHOW_SECONDS
        self._refusers: set[tuple[str, str]] = set()

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        _attempts(result, profile).inc()
        ATTEMPT_SECONDS.of(result, profile).add(seconds)

    def passed(self, point: str, profile: str, seconds: float) -> None:
        """A step of an attempt is over."""
        POINT_SECONDS.of(point, "Success", profile).add(seconds)

    def chose(self, alternatives: Iterable[Iterable[int | None]]) -> None:
        for claim in alternatives:
            for index in claim:
                if index is not None:
                    ALTERNATIVES.labels(str(index)).inc()

    def show(self, queue: SchedulingQueue) -> None:
        """Publish who waits where and because of whom, now and then."""
        if self._now() - self._shown < SHOW_SECONDS:
            return
        self._shown = self._now()
        for place, count in queue.counts().items():
            PENDING.labels(place).set(count)
        refused = Tally((plugin, w.pod.spec.schedulerName) for w in queue.unschedulable() for plugin in w.refused_by)
        for plugin, profile in self._refusers | refused.keys():
            UNSCHEDULABLE.labels(plugin, profile).set(refused[plugin, profile])
        self._refusers |= refused.keys()
