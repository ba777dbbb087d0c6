"""Metrics of the scheduler, under the names that Kubernetes dashboards use.

Events are counted as they happen; waiting pods are counted at scrape time, so that their number is current.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from prometheus_client import REGISTRY, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from dray.api.reasons.nodes import SchedulingRule
from dray.client.metrics import CountFamily, DurationFamily
from dray.core.queue import QueuePlace, SchedulingQueue, Waiting

GATES = "SchedulingGates"  # plugin name that Kubernetes uses for pods with scheduling gates
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
_MANY_ATTEMPTS = 15  # pods with this many attempts or more share one label value, as in Kubernetes
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
    """Count the end of a pod's wait for binding conditions, once for each of the drivers.

    `status` is "success", "failure", "timeout" or "error". `profile` is the scheduler name.
    """
    for driver in drivers:
        BINDINGS.labels(profile, driver, status).inc()
        BINDING_SECONDS.labels(profile, driver, status).observe(seconds)


class _QueueCollector:
    """Prometheus collector of the pods waiting in the newest scheduler of the process."""

    def __init__(self) -> None:
        self.queue: SchedulingQueue | None = None
        self._refusers: set[tuple[str, str]] = set()  # label pairs reported before, which stay reported with value 0

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
    """Return the plugins that keep a waiting pod from being scheduled. For a gated pod, that is the only one that
    gates it.
    """
    if waiting.place is QueuePlace.GATED:
        return (GATES if waiting.pod.spec.schedulingGates else SchedulingRule.DYNAMIC_RESOURCES,)
    return waiting.refused_by


def pod_bound(waiting: Waiting, now: float) -> None:
    """Observe the time and number of attempts that a bound pod needed."""
    attempts = str(waiting.attempts) if waiting.attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
    POD_SECONDS.of(attempts).add(now - (now if waiting.tried is None else waiting.tried))
    POD_ATTEMPTS.of().add(waiting.attempts)


class SchedulerFigures:
    """Metrics of one scheduler."""

    def __init__(self, queue: SchedulingQueue) -> None:
        _QUEUE.queue = self._queue = queue

    def close(self) -> None:
        """Stop reporting waiting pods, because this scheduler no longer leads."""
        if _QUEUE.queue is self._queue:
            _QUEUE.queue = None
            ALLOCATED_TWICE.of().value = 0

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an ended attempt. A successful attempt ends when the pod is bound.

        `result` is "scheduled", "unschedulable" or "error". `profile` is the scheduler name.
        """
        ATTEMPTS.of(result, profile).add()
        ATTEMPT_SECONDS.of(result, profile).add(seconds)

    def decided(self, seconds: float) -> None:
        """Observe the duration of an attempt before binding."""
        ALGORITHM_SECONDS.of().add(seconds)

    def passed(self, point: str, profile: str, seconds: float) -> None:
        """Observe the duration of one step of an attempt. `point` is its extension point, such as Filter or Bind."""
        POINT_SECONDS.of(point, "Success", profile).add(seconds)

    def chose(self, alternatives: Iterable[Iterable[int | None]]) -> None:
        """Count which alternatives were chosen for requests with prioritized alternatives."""
        for claim in alternatives:
            for index in claim:
                if index is not None:
                    ALTERNATIVES.observe(index)
