"""Metrics of a node's driver calls and containers, under the names that Kubernetes dashboards already know.

Several agents in one process add up. Left out: serving the metrics.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

ANY_DRIVER = "<any>"

OPERATIONS = Histogram(
    "dra_operations_seconds",
    "How long calls to DRA drivers took, by their outcome",
    ["driver_name", "method_name", "grpc_status_code"],
    buckets=(0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 45.0),
)
STARTS = Counter(
    "kubelet_started_containers", "Containers that the node tried to start, restarts included", ["container_type"]
)
START_ERRORS = Counter(
    "kubelet_started_containers_errors", "Starts of containers that failed, by reason", ["container_type", "code"]
)
_STRANDED = Gauge(
    "dra_resource_claims_without_driver",
    "Claims that are prepared on the node although no instance of the driver can be reached, by driver",
    ["driver_name"],
)
_IN_USE = Gauge("dra_resource_claims_in_use", "Claims that are prepared on the node, by driver", ["driver_name"])


class ClaimsInUse:
    """One agent's part of the gauges for claims in use."""

    def __init__(self) -> None:
        self._shown: Tally[str] = Tally()
        self._stranded: Tally[str] = Tally()

    def show(self, drivers_of_claims: list[set[str]], is_reachable: Callable[[str], bool]) -> None:
        """Set this agent's part of the gauges from the drivers that each prepared claim needs.

        `is_reachable` returns whether a driver, by name, can be called.
        """
        now = Tally(driver for drivers in drivers_of_claims for driver in drivers)
        stranded = Tally({driver: count for driver, count in now.items() if not is_reachable(driver)})
        now[ANY_DRIVER] = len(drivers_of_claims)
        for gauge, after, before in ((_IN_USE, now, self._shown), (_STRANDED, stranded, self._stranded)):
            for driver in {*after, *before}:
                gauge.labels(driver).inc(after[driver] - before[driver])
        self._shown, self._stranded = now, stranded
