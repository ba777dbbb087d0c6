"""A conformance kit for DRA drivers in any language: it plays the node agent and the API server, and reports.

`checks` says what a driver must do, `run` does all of it in order, and `Report` is what a vendor can attach to a release.
"""

from dray.sim.drivertest.cluster import Cluster, ForeignCluster, OwnCluster
from dray.sim.drivertest.report import Outcome, Report, Result
from dray.sim.drivertest.running import run
from dray.sim.drivertest.setting import Patience, Places
from dray.sim.drivertest.subject import Command, Endpoint, Subject

__all__ = [
    "Cluster",
    "Command",
    "Endpoint",
    "ForeignCluster",
    "Outcome",
    "OwnCluster",
    "Patience",
    "Places",
    "Report",
    "Result",
    "Subject",
    "run",
]
