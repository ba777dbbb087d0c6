"""The figures that the scheduler publishes, under the names that dashboards know.

What happens is counted as it happens; who waits is counted when somebody scrapes, so that it is never out of date.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dray.api.reasons.nodes import SchedulingRule
from dray.client.metrics import CountFamily, DurationFamily
from dray.core.queue import QueuePlace, SchedulingQueue, Waiting

GATES = "SchedulingGates"  # the plugin that Kubernetes names for pods with gates of their own
MOST_ALTERNATIVES = 8

_FAST = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)

ATTEMPTS = CountFamily("scheduler_schedule_attempts", "Attempts to place a pod, by result", ["result", "profile"])
GROUP_ATTEMPTS = CountFamily(
    "scheduler_podgroup_schedule_attempts", "Attempts to place a PodGroup, by result", ["result", "profile"]
)
POINT_SECONDS = DurationFamily(
    "scheduler_framework_extension_point_duration_seconds",
    "Time spent at each step of an attempt",
    ["extension_point", "status", "profile"],
    _FAST,
)
ATTEMPT_SECONDS = DurationFamily(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of a whole attempt with its binding",
    ["result", "profile"],
    _FAST,
)
ALGORITHM_SECONDS = DurationFamily(
    "scheduler_scheduling_algorithm_duration_seconds", "Time of an attempt without binding", [], _FAST
)
POD_SECONDS = DurationFamily(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from the first attempt to place a pod until it was bound",
    ["attempts"],
    tuple(0.01 * 2**number for number in range(20)),
)
POD_ATTEMPTS = DurationFamily(
    "scheduler_pod_scheduling_attempts", "Attempts that pods needed until they were bound", [], (1, 2, 4, 8, 16)
)
CLAIM_CREATES = CountFamily(
    "scheduler_resourceclaim_creates", "Attempts to create a claim for extended resources, by result", ["status"]
)
_MANY_ATTEMPTS = 15  # from which on pods are counted together, as Kubernetes does
ALTERNATIVES = Histogram(
    "scheduler_dynamic_resources_alternative_index",
    "Requests with alternatives that were allocated, by index of the one chosen",
    buckets=range(MOST_ALTERNATIVES),
)

PREEMPTION_VICTIMS = Histogram(
    "scheduler_preemption_victims",
    "Pods that were preempted for one pod",
    buckets=(1, 2, 4, 8, 16, 32, 64),
)
PREEMPTION_ATTEMPTS = Counter("scheduler_preemption_attempts", "Searches for pods whose end makes room for a pod")
GROUP_PREEMPTION_VICTIMS = Histogram(
    "scheduler_workload_preemption_victims",
    "Pods that were preempted for one group",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
)
GROUP_PREEMPTION_ATTEMPTS = Counter(
    "scheduler_workload_preemption_attempts", "Searches for pods whose end makes room for a group"
)

ALLOCATED_TWICE = CountFamily("dray_devices_allocated_twice", "Devices that two claims have now", goes_down=True)
SHADOW_PODS = CountFamily("dray_shadow_pods", "Pods of another scheduler that were compared, by result", ["result"])
SHADOW_OUR_SECONDS = Histogram(
    "dray_shadow_decision_seconds", "Time of deciding about a pod in shadow mode", buckets=_FAST
)
SHADOW_THEIR_SECONDS = Histogram(
    "dray_shadow_other_scheduler_seconds",
    "Time from a pod's creation until the other scheduler bound it or gave it up",
    buckets=(0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600),
)

BINDING_LABELS = ["profile", "driver", "status"]
BINDINGS = Counter(
    "scheduler_dra_bindingconditions_allocations",
    "Allocations with binding conditions, by how the wait for them ended",
    BINDING_LABELS,
)
BINDING_SECONDS = Histogram(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "Time that pods waited for the binding conditions of their devices",
    BINDING_LABELS,
    buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200),
)


def binding_ended(profile: str, drivers: Iterable[str], status: str, seconds: float) -> None:
    """A pod waits no more for the devices of these drivers."""
    for driver in drivers:
        BINDINGS.labels(profile, driver, status).inc()
        BINDING_SECONDS.labels(profile, driver, status).observe(seconds)


class _QueueCollector:
    """The pods that wait in the newest scheduler of the process: a Prometheus collector."""

    def __init__(self) -> None:
        self.queue: SchedulingQueue | None = None
        self._refusers: set[tuple[str, str]] = set()  # once told of, told of even if they refuse nobody any more

    def collect(self) -> Iterator[Metric]:
        text = "Pods that wait, by part of the queue"
        pending = GaugeMetricFamily("scheduler_pending_pods", text, labels=["queue"])
        text = "Pods that are not tried or fit nowhere, by the plugin that refused"
        unschedulable = GaugeMetricFamily("scheduler_unschedulable_pods", text, labels=["plugin", "profile"])
        if self.queue is not None:
            for place, count in self.queue.counts().items():
                pending.add_metric([place], count)
            refused = Tally((plugin, w.pod.spec.schedulerName) for w in self.queue.refused() for plugin in _refusers(w))
            self._refusers |= refused.keys()
            for refuser in self._refusers:
                unschedulable.add_metric(refuser, refused[refuser])
        yield from (pending, unschedulable)


_QUEUE = _QueueCollector()
REGISTRY.register(_QUEUE)


def _refusers(waiting: Waiting) -> Iterable[str]:
    if waiting.place is QueuePlace.GATED:
        return (GATES if waiting.pod.spec.schedulingGates else SchedulingRule.DYNAMIC_RESOURCES,)
    return waiting.refused_by


def pod_bound(waiting: Waiting, now: float) -> None:
    """Count what it took to place a pod."""
    attempts = str(waiting.attempts) if waiting.attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
    POD_SECONDS.of(attempts).add(now - (now if waiting.tried is None else waiting.tried))
    POD_ATTEMPTS.of().add(waiting.attempts)


class SchedulerFigures:
    """What one scheduler counts."""

    def __init__(self, queue: SchedulingQueue) -> None:
        _QUEUE.queue = self._queue = queue

    def close(self) -> None:
        """The scheduler does not lead any more: nobody waits for it."""
        if _QUEUE.queue is self._queue:
            _QUEUE.queue = None
            ALLOCATED_TWICE.of().value = 0

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """An attempt is over; that of a pod which has a node, once the pod is bound."""
        ATTEMPTS.of(result, profile).add()
        ATTEMPT_SECONDS.of(result, profile).add(seconds)

    def decided(self, seconds: float) -> None:
        """The part of an attempt before binding is over."""
        ALGORITHM_SECONDS.of().add(seconds)

    def passed(self, point: str, profile: str, seconds: float) -> None:
        """A step of an attempt is over."""
        POINT_SECONDS.of(point, "Success", profile).add(seconds)

    def chose(self, alternatives: Iterable[Iterable[int | None]]) -> None:
        for claim in alternatives:
            for index in claim:
                if index is not None:
                    ALTERNATIVES.observe(index)
