"""The result of a test run as text for people and as JSON for a release."""

from __future__ import annotations

from enum import Enum
from itertools import groupby

import msgspec

_NAMED = 5  # limit of checks skipped for the same reason that are named individually


class CheckOutcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check.

    `seconds` is how long the check took; `detail` is "" if there is nothing to say.
    """

    group: str
    check: str
    outcome: CheckOutcome
    detail: str = ""
    seconds: float = 0.0


class DriverReport(msgspec.Struct, frozen=True):
    """The results of all checks of one driver."""

    driver: str
    versions: tuple[str, ...]
    tested: str  # the command or socket that was tested
    time: str
    kit: str  # the version of the kit
    results: tuple[CheckResult, ...]
    output: str = ""  # the driver's last output, if a check failed

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> dict[str, str]:
        """Details of the failed checks, by name of the check."""
        return {one.check: one.detail for one in self.results if one.outcome is CheckOutcome.FAILED}

    def json(self) -> str:
        tree = {**msgspec.to_builtins(self), "passed": self.passed}
        return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode()

    def text(self) -> str:
        lines = [f"driver {self.driver or '(unknown)'}: {self.tested}"]
        if self.versions:
            lines.append(f"serves {', '.join(self.versions)}")
        for group, results in groupby(self.results, key=lambda one: one.group):
            lines += ["", group]
            for _, alike in groupby(results, key=_line):
                lines += _lines([*alike])
        if self.output:
            lines += ["", "the driver wrote:", *(f"  {line}" for line in self.output.splitlines())]
        counts = [(outcome, sum(one.outcome is outcome for one in self.results)) for outcome in CheckOutcome]
        lines += ["", ", ".join(f"{number} {outcome.value}" for outcome, number in counts if number)]
        lines.append(f"{self.time}, dray {self.kit}")
        return "\n".join(lines)


def _line(one: CheckResult) -> tuple[CheckOutcome, str, str]:
    """Key of results that share a line: checks skipped for the same reason.

    Consists of outcome, detail, and the check's name, which is "" for skipped checks.
    """
    return one.outcome, one.detail, "" if one.outcome is CheckOutcome.SKIPPED else one.check


def _lines(alike: list[CheckResult]) -> list[str]:
    first = alike[0]
    title = "; ".join(one.check for one in alike) if len(alike) <= _NAMED else f"{len(alike)} checks"
    details = [f"           {line}" for line in first.detail.splitlines()]
    return [f"  {first.outcome.value:7}  {title}", *details]
