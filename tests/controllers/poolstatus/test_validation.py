"""What the slices of a pool say against each other."""

from __future__ import annotations

from dray.controllers.poolstatus.validation import LONGEST_PROBLEM, current, problem_of, shortened
from tests.controllers.poolstatus.objects import slice_


def test_only_the_newest_generation_is_current() -> None:
    old, new = slice_("old", generation=1), slice_("new", generation=2)
    assert current([old, new]) == [new]
    assert current([]) == []


def test_a_whole_pool_has_no_problem() -> None:
    assert problem_of([slice_("a", ["d0"], of=2), slice_("b", ["d1"], of=2)]) is None


def test_too_few_and_too_many_slices_make_a_pool_incomplete() -> None:
    assert problem_of([slice_(of=3)]) == "incomplete: 1 of 3 slices are published"
    assert problem_of([slice_("a", ["d0"]), slice_("b", ["d1"])]) == "incomplete: 2 of 1 slices are published"


def test_slices_must_agree_on_how_many_there_are() -> None:
    found = problem_of([slice_("a", ["d0"], of=2), slice_("b", ["d1"], of=3)])
    assert found == "slices disagree about the number of slices: 2, 3"


def test_a_device_may_appear_once() -> None:
    found = problem_of([slice_("a", ["d0", "d1"], of=2), slice_("b", ["d1"], of=2)])
    assert found == "device d1 appears in multiple slices"


def test_long_texts_are_cut_to_the_bytes_that_the_api_takes() -> None:
    assert shortened("x" * LONGEST_PROBLEM) == "x" * LONGEST_PROBLEM
    assert shortened("x" * 300) == "x" * 253 + "..."
    cut = shortened("é" * 200)
    assert len(cut.encode()) <= LONGEST_PROBLEM
    assert cut.startswith("é" * 126)
