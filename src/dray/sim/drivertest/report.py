"""The outcome of a test run: for people, and as JSON for a release."""

from __future__ import annotations

from enum import Enum

import msgspec


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """One check: what a driver must do, and whether it does."""

    group: str
    check: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


class Report(msgspec.Struct, frozen=True):
    """All checks of one driver."""

    driver: str
    versions: tuple[str, ...]
    tested: str  # what was run
    time: str
    kit: str  # the version of the kit
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> dict[str, str]:
        """What is wrong, by check."""
        return {one.check: one.detail for one in self.results if one.outcome is Outcome.FAILED}

    def json(self) -> str:
        tree = {**msgspec.to_builtins(self), "passed": self.passed}
        return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode()

    def text(self) -> str:
        lines = [f"driver {self.driver or '(unknown)'}: {self.tested}"]
        if self.versions:
            lines.append(f"serves {', '.join(self.versions)}")
        group = ""
        for one in self.results:
            if one.group != group:
                group = one.group
                lines += ["", group]
            lines.append(f"  {one.outcome.value:7}  {one.check}")
            lines += [f"           {line}" for line in one.detail.splitlines()]
        counts = [(outcome, sum(one.outcome is outcome for one in self.results)) for outcome in Outcome]
        lines += ["", ", ".join(f"{number} {outcome.value}" for outcome, number in counts if number)]
        lines.append(f"{self.time}, dray {self.kit}")
        return "\n".join(lines)
