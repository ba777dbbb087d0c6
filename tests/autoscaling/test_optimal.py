"""The plan for a small case is as cheap as the best of all plans, and serves as many pods."""

from __future__ import annotations

import pytest

from dray.autoscaling.groups import read
from dray.autoscaling.planner import plan
from dray.autoscaling.plans import ScaleUpPlan
from dray.sim.cluster import Cluster
from tests.autoscaling import exhaustive
from tests.autoscaling.cases import Case, case, groups_file, objects

CASES = 180
PARTS = 6
INTERLEAVED = 1191  # where the best plan needs pods of two kinds to come in turns


def planned(case: Case, seconds: float = 60, **settings: float) -> ScaleUpPlan:
    groups = read(groups_file(case, **settings))
    cluster = Cluster([*groups.classes(()), *objects(case)])
    return plan(cluster, groups, seconds=seconds)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_plan_costs_what_the_best_plan_costs(part: int) -> None:
    for seed in (*range(part, CASES, PARTS), *([] if part else [INTERLEAVED])):
        one = case(seed)
        found = planned(one)
        served = sum(len(node.pods) for node in found.nodes)
        assert (served, found.price) == exhaustive.cheapest(one), f"seed {seed}"
        assert found.proven
        assert found.lower_bound == pytest.approx(found.cost)


def test_steps_down_alternatives_are_weighed_against_price() -> None:
    for seed in range(20):
        one = case(seed)
        found = planned(one, alternativePrice=2)
        served = sum(len(node.pods) for node in found.nodes)
        assert (served, pytest.approx(found.cost)) == exhaustive.cheapest(one, step=2), f"seed {seed}"


def test_the_lower_bound_of_a_hasty_plan_is_below_the_best_plan() -> None:
    compared = 0
    for seed in range(30):
        one = case(seed)
        hasty = planned(one, seconds=0)
        if not hasty.unhelped:
            compared += 1
            assert hasty.lower_bound <= exhaustive.cheapest(one)[1] <= hasty.price, f"seed {seed}"
    assert compared > 10


def test_the_cases_have_what_they_are_to_have() -> None:
    drawn = [case(seed) for seed in range(CASES)]
    wants = [want for one in drawn for want in one.wants]
    groups = [group for one in drawn for group in one.groups]
    assert {len(one.groups) for one in drawn} == {2, 3, 4}
    assert max(sum(want.pods for want in one.wants) for one in drawn) <= 12
    assert any(len(want.options) > 1 for want in wants)  # alternatives
    assert any(want.pods > 1 for want in wants)  # shared claims
    assert any(want.one_root for want in wants)
    assert any(option.memory for want in wants for option in want.options)  # shares
    assert any(group.cards for group in groups)  # partitions
