"""A conformance kit for DRA drivers in any language: it plays the node agent and the API server, and reports.

`checks` says what a driver must do, `run` does all of it in order, and `DriverReport` is what a vendor can attach to a release.
"""

from dray.driverkit.cluster import DriverTestCluster, own_cluster
from dray.driverkit.report import CheckOutcome, CheckResult, DriverReport
from dray.driverkit.running import run
from dray.driverkit.setting import Patience, Places
from dray.driverkit.subject import Command, DriverUnderTest, RegisteredDriver

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
