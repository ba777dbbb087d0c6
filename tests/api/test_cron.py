"""Schedules: the moments that they name, and what is said about those that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import cron

NOW = datetime(2026, 11, 17, 18, 21, 5, tzinfo=UTC)  # a Tuesday


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("*/5 * * * *", "2026-11-17T18:25"),
        ("0 9 * * mon-fri", "2026-11-18T09:00"),
        ("0 0 1 * 0", "2026-11-22T00:00"),  # the first of a month, or a Sunday
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("15,45 14 * jan *", "2027-01-01T14:15"),
        ("10-20/5 18 * * *", "2026-11-18T18:10"),
        ("@daily", "2026-11-18T00:00"),
        ("@hourly", "2026-11-17T19:00"),
    ],
)
def test_the_first_moment(text: str, first: str) -> None:
    assert cron.parse(text).after(NOW) == datetime.fromisoformat(first).replace(tzinfo=UTC)


def test_a_period_counts_from_the_last_time() -> None:
    assert cron.parse("@every 1h30m").after(NOW) == NOW + timedelta(minutes=90)


def test_a_day_that_never_comes() -> None:
    assert cron.parse("0 0 30 2 *").after(NOW) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty spec string"),
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("70 * * * *", "end of range (70) above maximum (59): 70"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", "failed to parse int from x: it must be a number"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", "failed to parse duration @every soon"),
    ],
)
def test_what_cannot_be_read_is_explained(text: str, reason: str) -> None:
    with pytest.raises(cron.ScheduleError) as refusal:
        cron.parse(text)
    assert str(refusal.value) == reason


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),  # the zone is added below
)
def test_the_first_moment_is_the_first(minute: int, hour: int, moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    found = cron.parse(f"{minute} {hour} * * *").after(moment)
    assert found is not None
    assert (found.minute, found.hour) == (minute, hour)
    assert timedelta(0) < found - moment <= timedelta(days=1)


@given(st.text(alphabet="0123456789*/-,? @abcdefghijmnu", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        schedule = cron.parse(text)
    except cron.ScheduleError:
        return
    found = schedule.after(NOW)
    assert found is None or found > NOW


@pytest.mark.parametrize(
    "text",
    [
        "*/" + "9" * 5000 + " * * * *",
        "9" * 5000 + " * * * *",
        "*/9223372036854775808 * * * *",
        "*/٣ * * * *",
        "٣ * * * *",
        "@every 99999999999999h",
        "@every 2562048h",
        "@every " + "9" * 5000 + "s",
        "@every ٣h",
    ],
)
def test_numbers_beyond_those_of_kubernetes_are_refused(text: str) -> None:
    with pytest.raises(cron.ScheduleError, match="failed to parse"):
        cron.parse(text)


@pytest.mark.parametrize("text", ["@every 2562047h", "*/9223372036854775807 * * * *", "*/" + "0" * 5000 + "5 * * * *"])
def test_the_largest_numbers_have_a_next_moment(text: str) -> None:
    assert cron.parse(text).after(datetime(2026, 1, 1, tzinfo=UTC)) is not None
