"""Which slices make up a pool, and what they say against each other."""

from __future__ import annotations

from dray.api.pools import by_pool, newest, problem_of
from dray.api.reasons.devices import PoolCode, PoolProblem, PoolState
from tests.controllers.poolstatus.objects import slice_


def test_only_the_newest_generation_counts() -> None:
    old, new = slice_("old", generation=1), slice_("new", generation=2)
    assert newest([old, new]) == [new]
    assert newest([]) == []


def test_slices_of_a_pool_come_in_the_order_of_their_names() -> None:
    b, a, other = slice_("b"), slice_("a"), slice_("c", pool="other")
    assert sorted(by_pool([b, a, other]).values(), key=len) == [[other], [a, b]]


def test_a_whole_pool_has_no_problem() -> None:
    assert problem_of([slice_("a", ["d0"], of=2), slice_("b", ["d1"], of=2)]) is None


def test_slices_that_do_not_reach_a_node_count_too() -> None:
    here, there = slice_("a", ["d0"], of=2), slice_("b", ["d1"], of=2)
    assert problem_of([here], [here, there]) is None


def test_too_few_and_too_many_slices_make_a_pool_incomplete() -> None:
    few, many = problem_of([slice_(of=3)]), problem_of([slice_("a", ["d0"]), slice_("b", ["d1"])])
    assert few == PoolProblem(PoolCode.SLICES_MISSING, 1, (3,))
    assert many == PoolProblem(PoolCode.SLICES_MISSING, 2, (1,))
    assert few.state is PoolState.INCOMPLETE


def test_slices_that_disagree_are_told_apart_from_missing_ones() -> None:
    found = problem_of([slice_("a", ["d0"], of=3), slice_("b", ["d1"], of=2)])
    assert found == PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, 2, (2, 3))


def test_a_device_may_appear_once() -> None:
    found = problem_of([slice_("a", ["d0", "d1"], of=2), slice_("b", ["d1"], of=2)])
    assert found == PoolProblem(PoolCode.DUPLICATE_DEVICE, device="d1")
    assert found.state is PoolState.INVALID
