"""A burst passes, then one turn at a time; each has a pace of its own."""

from __future__ import annotations

import pytest

from dray.api import pace
from dray.api.pace import Pace


def delays(paced: Pace, now: float, who: str, count: int) -> list[float]:
    return [round(paced.delay(now, who), 3) for _ in range(count)]


def test_a_burst_is_let_through_and_the_rest_waits_its_turn() -> None:
    paced = Pace(rate=10, burst=3)
    assert delays(paced, 0.0, "a", 6) == [0, 0, 0, 0.1, 0.2, 0.3]
    assert delays(paced, 0.0, "b", 1) == [0]


def test_a_rest_allows_no_more_than_a_burst() -> None:
    paced = Pace(rate=10, burst=3)
    delays(paced, 1000.0, "a", 3)
    assert delays(paced, 1000.1, "a", 2) == [0, 0.1]
    assert delays(paced, 4600.0, "a", 4) == [0, 0, 0, 0.1]


def test_those_who_have_rested_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_REMEMBERED", 2)
    paced = Pace(rate=10, burst=1)
    paced.delay(1000.0, "rests")
    delays(paced, 1001.0, "hurries", 3)
    paced.delay(1001.0, "new")
    assert [*paced._next] == ["hurries", "new"]
    assert delays(paced, 1001.0, "hurries", 1) == [0.3]
