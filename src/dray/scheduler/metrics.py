"""The figures that the scheduler publishes, under the names that dashboards know."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_FAST = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)

PENDING = Gauge("scheduler_pending_pods", "Pods that wait, by part of the queue", ["queue"])
UNSCHEDULABLE = Gauge(
    "scheduler_unschedulable_pods", "Unschedulable pods, by the plugin that refused", ["plugin", "profile"]
)
ATTEMPTS = Counter("scheduler_schedule_attempts", "Attempts to place a pod, by result", ["result", "profile"])
POINT_SECONDS = Histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Time spent at each step of an attempt",
    ["extension_point", "status", "profile"],
    buckets=_FAST,
)
ATTEMPT_SECONDS = Histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of a whole attempt without binding",
    ["result", "profile"],
    buckets=_FAST,
)
ALTERNATIVES = Counter(
    "scheduler_dynamic_resources_alternatives", "Requests allocated, by index of the alternative chosen", ["index"]
)
