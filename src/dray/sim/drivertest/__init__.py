"""A conformance kit for DRA drivers in any language: it plays the node agent and the API server, and reports.

`checks` says what a driver must do, `run` does all of it in order, and `DriverReport` is what a vendor can attach to a release.
"""

from dray.sim.drivertest.cluster import DriverTestCluster, own_cluster
from dray.sim.drivertest.report import CheckOutcome, CheckResult, DriverReport
from dray.sim.drivertest.running import run
from dray.sim.drivertest.setting import Patience, Places
from dray.sim.drivertest.subject import Command, DriverUnderTest, RegisteredDriver

__all__ = [
    "CheckOutcome",
    "CheckResult",
    "Command",
    "DriverReport",
    "DriverTestCluster",
    "DriverUnderTest",
    "Patience",
    "Places",
    "RegisteredDriver",
    "own_cluster",
    "run",
]
