"""Conformance tests for DRA drivers in any language: plays the node agent and the API server, and writes a report.

`checks` defines the requirements for a driver, `run` tests all of them in order, and `DriverReport` is the result,
which a vendor can attach to a release.
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
