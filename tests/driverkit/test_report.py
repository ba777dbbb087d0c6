"""The report of the kit, as people read it."""

from __future__ import annotations

from dray.driverkit.report import CheckOutcome, CheckResult, DriverReport


def report(*results: CheckResult, output: str = "") -> str:
    return DriverReport("gpu.example.com", (), "./driver", "2026-01-01T00:00:00Z", "0", results, output).text()


def test_checks_that_were_skipped_for_one_reason_take_one_line() -> None:
    skipped = [CheckResult("prepare", f"check {n}", CheckOutcome.SKIPPED, "nothing is published") for n in range(6)]
    text = report(CheckResult("prepare", "first", CheckOutcome.PASSED), *skipped)
    assert "  passed   first\n  skipped  6 checks\n           nothing is published\n" in text
    assert "check 1" not in text


def test_one_skipped_check_and_all_others_are_named() -> None:
    text = report(
        CheckResult("prepare", "first", CheckOutcome.FAILED, "why"),
        CheckResult("prepare", "second", CheckOutcome.FAILED, "why"),
        CheckResult("prepare", "third", CheckOutcome.SKIPPED, "why"),
    )
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("  ") and "why" not in line] == [
        "first",
        "second",
        "third",
    ]


def test_what_the_driver_wrote_is_shown() -> None:
    assert "the driver wrote:\n  no such device\n" in report(output="no such device")
