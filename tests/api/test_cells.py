"""Durations as Kubernetes prints them."""

import pytest

from dray.api.cells import age, duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (8 * HOUR - 1, "7h59m"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (8 * DAY - 1, "7d23h"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR, "8y"),
    ],
)
def test_a_duration_has_two_units_while_the_smaller_matters(seconds, text):
    assert duration(seconds) == text


def test_an_age_without_a_usable_time_is_unknown():
    assert age(None, 0) == age("", 0) == age("yesterday", 0) == "<unknown>"
    assert age("1970-01-01T00:00:10.500000Z", 70.6) == "60s"
