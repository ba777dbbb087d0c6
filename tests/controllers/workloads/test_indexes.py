"""Sets of indexes as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.controllers.workloads.indexes import Runs, parse, written


@pytest.mark.parametrize(
    ("indexes", "text"),
    [(set(), ""), ({3}, "3"), ({0, 1}, "0,1"), ({0, 1, 2, 5, 7, 8, 9}, "0-2,5,7-9"), ({1, 3, 4}, "1,3,4")],
)
def test_runs_are_written_as_in_kubernetes(indexes: set[int], text: str) -> None:
    assert written(indexes) == text


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_can_be_read(indexes: set[int]) -> None:
    assert parse(written(indexes)) == indexes


@given(st.text(alphabet="0123456789,- x", max_size=8))
def test_nonsense_is_overlooked(text: str) -> None:
    assert all(index >= 0 for index in parse(text))


@given(st.text(alphabet="0123456789,-", max_size=12))
def test_runs_hold_what_is_read_from_them(text: str) -> None:
    runs = Runs(text)
    if runs.count < 10_000:
        found = parse(text)
        assert runs.count == len(found)
        assert all((index in runs) == (index in found) for index in range(1001))


def test_a_short_text_may_mean_very_many() -> None:
    runs = Runs("0-1999999999,5-7")
    assert (runs.count, 1_999_999_999 in runs, 2_000_000_000 in runs) == (2_000_000_000, True, False)
