"""Metrics at /metrics: requests by verb, resource and code, their duration, and the number in progress.

Counting a request costs a dictionary lookup and two additions; Prometheus' format is made when it is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.gates import GATES, FeatureGates
from dray.apiserver.store_health import StoreHealth
from dray.apiserver.watchdog import Watchdog
from dray.store import Cache
from dray.store.measures import BOUNDS, count, new_row


class Metrics:
    """Counters of the server; a Prometheus collector."""

    def __init__(
        self,
        cache: Cache,
        watchdog: Watchdog | None = None,
        health: StoreHealth | None = None,
        gates: FeatureGates | None = None,
    ) -> None:
        self._cache = cache
        self._gates = gates or FeatureGates()
        self._watchdog = watchdog
        self._health = health
        self._requests: dict[tuple[str, str, str, int], int] = {}
        self._durations: dict[tuple[str, str, str], list[float]] = {}
        self.in_flight = 0
        self.watchers = 0
        self.refused = 0

    def count(self, verb: str, group: str, resource: str, code: int, seconds: float) -> None:
        """Count a finished request. `seconds` is its duration, which is not counted for watches."""
        key = (verb, group, resource, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        if verb == "watch":
            return
        durations = self._durations.get(key[:3])
        if durations is None:
            durations = self._durations[key[:3]] = new_row()
        count(durations, seconds)

    def collect(self) -> Iterator[Any]:
        """Yield all metrics of the server in Prometheus' form."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        names = ["verb", "group", "resource"]
        requests = CounterMetricFamily(
            "apiserver_request", "Requests by verb, resource and code.", labels=[*names, "code"]
        )
        for (verb, group, resource, code), number in self._requests.items():
            requests.add_metric([verb, group, resource, str(code)], number)
        yield requests
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "How long requests other than watch took.", labels=names
        )
        for labels, row in self._durations.items():
            durations.add_metric(labels, _buckets(row), row[-1])
        yield durations
        yield GaugeMetricFamily("apiserver_current_inflight_requests", "Requests under way.", self.in_flight)
        yield GaugeMetricFamily("apiserver_longrunning_requests", "Watches under way.", self.watchers)
        enabled = GaugeMetricFamily("kubernetes_feature_enabled", "1 for a gate that is on.", labels=["name", "stage"])
        for gate in GATES:
            enabled.add_metric(
                [gate.alias or gate.name, "" if gate.stage == "stable" else gate.stage.upper()],
                self._gates.served(gate.name),
            )
        yield enabled
        yield CounterMetricFamily("apiserver_rejected_requests", "Requests refused for load.", self.refused)
        if self._watchdog is not None:
            text = "The longest turn of the event loop in the last minute, in processor time."
            yield GaugeMetricFamily("dray_loop_turn_seconds", text, self._watchdog.longest)
        yield GaugeMetricFamily("apiserver_storage_revision", "The revision of the cache.", self._cache.revision)
        yield from self._store()

    def _store(self) -> Iterator[Any]:
        """Yield the metrics of the store: durations, failures, cache lag and, if its health is watched, outages."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        measures = self._cache.measures
        text = "How long the store took for an operation."
        durations = HistogramMetricFamily("dray_store_operation_seconds", text, labels=["operation"])
        for operation, row in measures.durations.items():
            durations.add_metric([operation], _buckets(row), row[-1])
        yield durations
        text = "Operations that the store failed to do; a conflict is no failure."
        failures = CounterMetricFamily("dray_store_operation_failures", text, labels=["operation", "kind"])
        for (operation, kind), number in measures.failures.items():
            failures.add_metric([operation, kind], number)
        yield failures
        text = "How long a read or write waited until the watch cache had what the store has."
        lag = HistogramMetricFamily("dray_watch_cache_lag_seconds", text)
        lag.add_metric([], _buckets(measures.lag), measures.lag[-1])
        yield lag
        if self._health is not None:
            text = "For how long the store has not been usable; 0 while it is."
            yield GaugeMetricFamily("dray_store_failing_seconds", text, self._health.seconds_failing)

    def text(self) -> tuple[bytes, bytes]:
        """Return the metrics as text, and the content type.

        Includes metrics of other components in this process, because `dray up` runs all of them in one.
        """
        from prometheus_client import REGISTRY, CollectorRegistry, exposition

        registry = CollectorRegistry()
        registry.register(self)
        text = exposition.generate_latest(registry) + exposition.generate_latest(REGISTRY)
        return text, exposition.CONTENT_TYPE_LATEST.encode()


def _buckets(row: list[float]) -> list[tuple[str, float]]:
    """Return a histogram row as cumulative buckets: (upper bound as text, number of values up to it).

    The last bound is "+Inf".
    """
    total, buckets = 0.0, []
    for bound, number in zip((*map(str, BOUNDS), "+Inf"), row, strict=False):
        total += number
        buckets.append((bound, total))
    return buckets
