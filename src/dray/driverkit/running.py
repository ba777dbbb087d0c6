"""Runs all checks against one driver, in order, and collects the results."""

from __future__ import annotations

import inspect
from asyncio import get_running_loop
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from dray.api.errors import ApiError
from dray.api.times import timestamp
from dray.driverkit.checks import CHECKS, DriverCheck
from dray.driverkit.cluster import DriverTestCluster
from dray.driverkit.kubelet import DriverCallFailed
from dray.driverkit.report import CheckOutcome, CheckResult, DriverReport
from dray.driverkit.setting import CheckFailed, Patience, Places, Setting, Skipped
from dray.driverkit.subject import DriverUnderTest


async def run(
    subject: DriverUnderTest,
    cluster: DriverTestCluster,
    places: Places,
    patience: Patience | None = None,
    registration: Path | None = None,
) -> DriverReport:
    """Test a driver and return the report. `registration` is the socket of a driver that is already running."""
    places.make()
    setting = Setting(cluster, subject, places, patience or Patience(), registration)
    results: list[CheckResult] = []
    try:
        await subject.start(places)
        problem = await _registered(setting)
        for group, checks in CHECKS.items():
            for check in checks:
                if problem:
                    results.append(CheckResult(group, describe(check), *problem))
                    problem = CheckOutcome.SKIPPED, "the driver is not registered"
                else:
                    results.append(await _one(setting, group, check))
    finally:
        await subject.stop()
    return DriverReport(
        driver=setting.driver,
        versions=tuple(setting.info.supported_versions),
        tested=subject.title,
        time=timestamp(datetime.now(UTC).timestamp()),
        kit=version("dray"),
        results=tuple(results),
        output=subject.output() if _is_suspect(setting, results) else "",
    )


def _is_suspect(setting: Setting, results: list[CheckResult]) -> bool:
    """Whether the driver's own output may help to explain a problem.

    Applies if the driver published no slices or a check failed.
    """
    return not setting.has_published or any(one.outcome is CheckOutcome.FAILED for one in results)


def describe(check: DriverCheck) -> str:
    """Return the name of a check in words: `prepares a claim`."""
    assert inspect.isfunction(check)
    return check.__name__.replace("_", " ").replace("cdi", "CDI")


async def _registered(setting: Setting) -> tuple[CheckOutcome, str] | None:
    try:
        await setting.find()
    except CheckFailed as error:
        return CheckOutcome.FAILED, str(error)
    return None


async def _one(setting: Setting, group: str, check: DriverCheck) -> CheckResult:
    begun = get_running_loop().time()
    outcome, detail = CheckOutcome.PASSED, ""
    try:
        await check(setting)
    except Skipped as reason:
        outcome, detail = CheckOutcome.SKIPPED, str(reason)
    except (CheckFailed, DriverCallFailed) as error:
        outcome, detail = CheckOutcome.FAILED, _detail(check, str(error))
    except (ApiError, OSError) as error:
        outcome, detail = CheckOutcome.FAILED, _detail(check, f"the check itself failed: {error}")
    finally:
        await setting.clean()
    return CheckResult(group, describe(check), outcome, detail, round(get_running_loop().time() - begun, 3))


def _detail(check: DriverCheck, error: str) -> str:
    return f"expected: {(inspect.getdoc(check) or '').splitlines()[0]}\nbut: {error}"
