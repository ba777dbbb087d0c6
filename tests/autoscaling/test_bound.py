"""The lower bound: whatever values it begins with, no plan costs less."""

from __future__ import annotations

import time

import pytest

from dray.autoscaling.bound import relax
from dray.autoscaling.cost_model import CostModel
from dray.autoscaling.demand import demand_of
from dray.autoscaling.expanders import costs_of
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.packings import Packings
from dray.autoscaling.trial import template_of
from dray.sim.cluster import Cluster
from tests.autoscaling.test_planner import group, groups
from tests.sim.test_cluster import pod, template


def model(found: NodeGroups, *pods: dict[str, object], seconds: float) -> tuple[CostModel, list[int]]:
    cluster = Cluster([*found.classes(()), template(1), template(2), *pods])
    cluster.settle()
    kinds = demand_of(cluster).kinds
    packings = [Packings(group, kinds, template_of(cluster)) for group in found.groups]
    costs = costs_of(found.groups, found.settings)
    return CostModel(packings, costs, kinds, time.monotonic() + seconds), [len(kind.units) for kind in kinds]


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_pods_that_need_different_things_share_a_node_in_the_bound_as_well(seconds: float) -> None:
    """Two pods with devices and six without fill one node; each kind alone would pay for a part of its own."""
    pods = [pod(f"gpu-{n}", 1) for n in range(2)] + [pod(f"cpu-{n}", 0) for n in range(6)]
    made, wanted = model(groups(group("a", 2, 4.0)), *pods, seconds=seconds)
    found = relax(made, wanted, wanted, [5], [])
    assert 0 < found.bound <= 4.0 + made.costs.slack(8, 0)


def test_given_time_the_bound_is_that_of_the_best_fractions_of_nodes() -> None:
    """Three pods of two devices on nodes of five: two a node, so one and a half nodes."""
    made, wanted = model(groups(group("a", 5, 4.0)), *(pod(f"p{n}", 2) for n in range(3)), seconds=60)
    found = relax(made, wanted, wanted, [5], [])
    assert found.bound == pytest.approx(6.0, rel=1e-5)


def test_scarce_room_makes_the_bound_dearer() -> None:
    """One cheap node may be had; the other pod needs a dear one."""
    made, wanted = model(groups(group("a", 1, 1.0), group("b", 1, 9.0)), pod("p"), pod("q"), seconds=60)
    assert relax(made, wanted, wanted, [1, 5], []).bound == pytest.approx(10.0, rel=1e-5)
