"""The metrics of queues and events, under the names that dashboards for Kubernetes already know.

Gauges are asked for when somebody scrapes, so they cost nothing in between. Left out: serving them.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)

_DEPTH = Gauge("workqueue_depth", "Keys that wait in the queue", ["name"])
_ADDS = Counter("workqueue_adds", "Keys added to the queue", ["name"])
_RETRIES = Counter("workqueue_retries", "Keys added again after a failure", ["name"])
_WAITED = Histogram("workqueue_queue_duration_seconds", "How long keys waited", ["name"], buckets=_SECONDS)
_WORKED = Histogram("workqueue_work_duration_seconds", "How long handling a key took", ["name"], buckets=_SECONDS)
_UNFINISHED = Gauge("workqueue_unfinished_work_seconds", "Time spent so far on what is being handled", ["name"])
_LONGEST = Gauge("workqueue_longest_running_processor_seconds", "Time spent so far on the slowest key", ["name"])

EVENTS_DROPPED = Counter("dray_events_dropped", "Events that were not written because too many came", ["source"])
EVENTS_WRITTEN = Counter("dray_events_written", "Events created or counted up", ["source"])


class QueueMetrics:
    """The metrics of one queue; the newest queue of a name is the one that is shown."""

    def __init__(self, name: str, depth: Callable[[], float], running: Callable[[], list[float]]) -> None:
        self.added = _ADDS.labels(name).inc
        self.retried = _RETRIES.labels(name).inc
        self.waited = _WAITED.labels(name).observe
        self.worked = _WORKED.labels(name).observe
        _DEPTH.labels(name).set_function(depth)
        _UNFINISHED.labels(name).set_function(lambda: sum(running()))
        _LONGEST.labels(name).set_function(lambda: max(running(), default=0.0))
