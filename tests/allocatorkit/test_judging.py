"""Answers of other allocators are the same as Kubernetes', different but valid, or wrong."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from dray.allocator import Allocated
from dray.allocatorkit import AllocationCase, SelectorCase, cases, judge
from dray.allocatorkit.cases import FEATURES
from dray.allocatorkit.judging import AnswerStanding


@cache
def every() -> list[AllocationCase | SelectorCase]:
    return [*cases()]


def allocation(name: str) -> AllocationCase:
    """A case by its name, or the first one with this outcome."""
    found = (one for one in every() if isinstance(one, AllocationCase))
    return next(one for one in found if name in (one.id, one.want.outcome))


def said(case: AllocationCase | SelectorCase, **answer: Any) -> AnswerStanding:
    return judge(case, {"id": case.id} | answer).standing


def test_the_recorded_answers_are_the_same() -> None:
    for case in every():
        if isinstance(case, AllocationCase):
            assert said(case, outcome=case.want.outcome, result=case.want.result) is AnswerStanding.SAME, case.id
        elif case.want.match is None:
            assert said(case, error="an error in other words") is AnswerStanding.SAME, case.id
        else:
            assert said(case, match=case.want.match) is AnswerStanding.SAME, case.id


def test_an_allocation_is_checked_against_the_slices() -> None:
    case = allocation("allocated")
    for break_it in (
        lambda result: result[0]["devices"]["results"].pop(),
        lambda result: result[0]["devices"]["results"][0].update(device="nobody"),
        lambda result: result.pop(),
    ):
        result = deepcopy(case.want.result)
        break_it(result)
        verdict = judge(case, {"outcome": "allocated", "result": result})
        assert verdict.standing is AnswerStanding.WRONG
        assert verdict.why


def test_other_devices_that_are_valid_too_are_different() -> None:
    """The devices come in another order where the slices do, and Kubernetes takes the first ones."""
    found = Counter[AnswerStanding]()
    for case in every():
        if isinstance(case, AllocationCase) and case.want.outcome == "allocated" and case.id.startswith("base"):
            slices = reversed([*case.scenario.slices])
            turned = case.scenario.__class__(
                case.id, case.scenario.node, case.scenario.classes, tuple(slices), case.scenario.claims,
                case.scenario.allocated, case.scenario.shares, case.scenario.features,
            )  # fmt: skip
            outcome = turned.ask()
            if isinstance(outcome, Allocated):
                found[said(case, outcome="allocated", result=list(outcome.results))] += 1
    assert found[AnswerStanding.WRONG] == 0
    assert found[AnswerStanding.SAME] > 0


@pytest.mark.parametrize(
    ("name", "answer", "standing"),
    [
        ("allocated", {"outcome": "none"}, AnswerStanding.WRONG),
        ("allocated", {"outcome": "error", "message": "m"}, AnswerStanding.WRONG),
        ("allocated", {"outcome": "gave-up"}, AnswerStanding.WRONG),
        ("allocated", {"outcome": "allocated", "result": "all"}, AnswerStanding.WRONG),
        ("allocated", {"outcome": "allocated", "result": [7]}, AnswerStanding.WRONG),
        ("allocated", {}, AnswerStanding.WRONG),
        ("none", {"outcome": "allocated", "result": []}, AnswerStanding.WRONG),
        ("none", {"outcome": "error"}, AnswerStanding.DIFFERENT),
        ("error", {"outcome": "none"}, AnswerStanding.DIFFERENT),
        ("error", {"outcome": "gave-up"}, AnswerStanding.WRONG),
        ("gave-up", {"outcome": "gave-up"}, AnswerStanding.SAME),
        ("none", {"skip": "later"}, AnswerStanding.SKIPPED),
    ],
)
def test_outcomes_are_compared(name: str, answer: dict[str, Any], standing: AnswerStanding) -> None:
    assert said(allocation(name), **answer) is standing


def test_where_kubernetes_gave_up_the_truth_counts() -> None:
    found = [one for one in every() if isinstance(one, AllocationCase) and one.want.outcome == "gave-up"]
    proven = next(one for one in found if one.want.truth == "none")
    assert said(proven, outcome="none") is AnswerStanding.SAME
    assert said(proven, outcome="error") is AnswerStanding.DIFFERENT


def test_selectors_have_a_value_or_an_error() -> None:
    selectors = [one for one in every() if isinstance(one, SelectorCase)]
    match = next(one for one in selectors if one.want.match)
    assert (
        said(match, match=False)
        is said(match, error="e")
        is said(match)
        is said(match, match=1)
        is AnswerStanding.WRONG
    )
    failing = next(one for one in selectors if one.want.runtimeError)
    assert said(failing, match=False) is AnswerStanding.WRONG


@pytest.mark.parametrize("feature", FEATURES)
def test_cases_that_need_a_feature_can_be_left_out(feature: str) -> None:
    left = [*cases(frozenset([feature]))]
    assert 0 < len(left) < len(every())
    assert not any(feature in one.needs for one in left)
