"""Metrics of queues and events, with the names that Kubernetes dashboards use.

A queue counts thousands of keys per second, so counting is a plain addition; the Prometheus form is created on
each scrape. `DurationFamily` and `CountFamily` do the same for other frequent counters: the counters of the
Prometheus library take a lock and five calls. Serving metrics is not part of this module.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)


class Count:
    """A counter or gauge value."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int = 1) -> None:
        self.value += number


class CountFamily(Collector):
    """Counters by labels, as a Prometheus collector that registers itself; gauges if `goes_down`."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = (), *, goes_down: bool = False) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._family = GaugeMetricFamily if goes_down else CounterMetricFamily
        self._series: dict[tuple[str, ...], Count] = {}
        if not labels:
            self.of()  # report 0 before the first event
        REGISTRY.register(self)

    def of(self, *labels: str) -> Count:
        """Return the counter for these label values; creates it on first use."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Count()
        return series

    def collect(self) -> Iterator[Metric]:
        family = self._family(self._name, self._text, labels=self._labels)
        for labels, series in [*self._series.items()]:
            family.add_metric(labels, series.value)
        yield family


EVENTS_DROPPED = CountFamily("dray_events_dropped", "Events that were not written because too many came", ["source"])
EVENTS_WRITTEN = CountFamily("dray_events_written", "Events created or counted up", ["source"])


class Durations:
    """Histogram of durations in seconds."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._total += seconds

    def tell(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add the histogram to a Prometheus metric family."""
        reached, buckets = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            reached += count
            buckets.append((bound, float(reached)))
        family.add_metric(labels, buckets, self._total)


class DurationFamily:
    """Histograms of durations by labels, as a Prometheus collector that registers itself."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: tuple[float, ...]) -> None:
        self._name, self._text, self._labels, self._bounds = name, text, labels, bounds
        self._series: dict[tuple[str, ...], Durations] = {}
        REGISTRY.register(self)

    def of(self, *labels: str) -> Durations:
        """Return the histogram for these label values; creates it on first use."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Durations(self._bounds)
        return series

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, series in [*self._series.items()]:
            series.tell(family, labels)
        yield family


class ObjectFigures:
    """Metrics of objects, served at a separate endpoint because they can be very many.

    `look` copies the objects on the event loop; the collector that it returns is read in a thread.
    """

    look: Callable[[], Collector] | None = None

    @contextmanager
    def shown(self, look: Callable[[], Collector]) -> Iterator[None]:
        """Serve the metrics of `look` for the duration of the context."""
        self.look = look
        try:
            yield
        finally:
            if self.look is look:
                self.look = None


OBJECT_FIGURES = ObjectFigures()


class QueueMetrics:
    """Metrics of the queues with one name. Depth and running keys are those of the newest queue."""

    def __init__(self) -> None:
        self.added = 0
        self.retried = 0
        self.waited = Durations()
        self.worked = Durations()
        self.depth: Callable[[], float] = float
        self.running: Callable[[], list[float]] = list


class _Queues:
    """Prometheus collector of all queues in the process."""

    def __init__(self) -> None:
        self.by_name: dict[str, QueueMetrics] = {}

    def collect(self) -> Iterator[Metric]:
        name = ["name"]
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait in the queue", labels=name)
        adds = CounterMetricFamily("workqueue_adds", "Keys added to the queue", labels=name)
        retries = CounterMetricFamily("workqueue_retries", "Keys added again after a failure", labels=name)
        waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "How long keys waited", labels=name)
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "How long handling a key took", labels=name)
        text = "Time spent so far on what is being handled"
        unfinished = GaugeMetricFamily("workqueue_unfinished_work_seconds", text, labels=name)
        text = "Time spent so far on the slowest key"
        longest = GaugeMetricFamily("workqueue_longest_running_processor_seconds", text, labels=name)
        for queue, metrics in [*self.by_name.items()]:
            running = metrics.running()
            depth.add_metric([queue], metrics.depth())
            adds.add_metric([queue], metrics.added)
            retries.add_metric([queue], metrics.retried)
            metrics.waited.tell(waited, [queue])
            metrics.worked.tell(worked, [queue])
            unfinished.add_metric([queue], sum(running))
            longest.add_metric([queue], max(running, default=0.0))
        yield from (depth, adds, retries, waited, worked, unfinished, longest)


_QUEUES = _Queues()
REGISTRY.register(_QUEUES)


def queue_metrics(name: str, depth: Callable[[], float], running: Callable[[], list[float]]) -> QueueMetrics:
    """Return the metrics for a queue. Counts of earlier queues with the same name are kept."""
    metrics = _QUEUES.by_name.setdefault(name, QueueMetrics())
    metrics.depth, metrics.running = depth, running
    return metrics


class _Renamed(Collector):
    """Prometheus collector with the metrics of another collector under names with another prefix."""

    def __init__(self, original: Collector, prefix: str, instead: str) -> None:
        self._original, self._prefix, self._instead = original, prefix, instead

    def collect(self) -> Iterator[Metric]:
        for metric in self._original.collect():
            renamed = Metric(self._named(metric.name), metric.documentation, metric.type, metric.unit)
            renamed.samples = [sample._replace(name=self._named(sample.name)) for sample in metric.samples]
            yield renamed

    def _named(self, name: str) -> str:
        return self._instead + name.removeprefix(self._prefix)


def also_named(original: Collector, prefix: str, instead: str) -> None:
    """Publish the metrics of a collector a second time, with `instead` in place of the prefix of their names."""
    REGISTRY.register(_Renamed(original, prefix, instead))
