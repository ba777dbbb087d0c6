"""Timestamps and durations."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        'timestamp("2023-07-14T10:30:45.123Z").getMonth() == 6',
        'timestamp("2023-07-14T10:30:45.123Z").getDayOfWeek() == 5',
        'timestamp("2023-07-14T10:30:45.123Z").getDate() == 14 && timestamp("2023-07-14T10:30:45.123Z").getDayOfMonth() == 13',
        'timestamp("2023-07-14T10:30:45.123Z").getMilliseconds() == 123',
        'timestamp("2023-01-01T05:30:00Z").getFullYear("-08:00") == 2022',
        'timestamp("2023-07-14T10:30:45.123Z").getHours("America/Los_Angeles") == 3',
        'timestamp("2023-01-01T00:00:00Z") + duration("24h") == timestamp("2023-01-02T00:00:00Z")',
        'timestamp("2023-01-02T00:00:00Z") - timestamp("2023-01-01T00:00:00Z") == duration("24h")',
        'duration("3723s").getHours() == 1 && duration("3723s").getMinutes() == 62 && duration("3723.456s").getSeconds() == 3723',
        'string(duration("1h30m")) == "5400s" && string(timestamp("2023-01-01T00:00:00Z")) == "2023-01-01T00:00:00Z"',
        'int(timestamp("1970-01-01T00:00:01Z")) == 1 && int(duration("1s")) == 1000000000',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            "timestamp(device.driver) == timestamp(0)",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            'duration(device.driver) == duration("1s")',
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("timestamp(0).getHours(device.driver) == 1", "unknown time zone gpu.example.com"),
        ('timestamp("9999-12-31T23:59:59Z") + duration("1s") == timestamp(0)', "timestamp overflow"),
        ('duration("100000h") + duration("2562047h") == duration("1s")', "integer overflow"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
