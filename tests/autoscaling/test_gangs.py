"""Nodes for gangs: the plan for a small case is the best one in which every gang is whole or absent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from dray.api.gates import FeatureGates
from dray.api.reasons.autoscaling import NoHelp
from dray.api.types.scheduling import PodGroup
from dray.autoscaling.groups import NodeGroups, read
from dray.autoscaling.planner import plan
from dray.autoscaling.plans import Check, ScaleUpPlan
from dray.autoscaling.report import lines
from dray.autoscaling.scale_down import ScaleDown
from dray.sim.cluster import Cluster
from tests.autoscaling import exhaustive
from tests.autoscaling.cases import groups_file
from tests.autoscaling.gangs import GangCase, cheapest, gang_case, gang_objects
from tests.autoscaling.test_planner import group, groups
from tests.sim.test_cluster import machines, pod, template

CASES = 300
PARTS = 6
GATES = FeatureGates.of({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})


def planned(case: GangCase) -> ScaleUpPlan:
    groups = read(groups_file(case.plain))
    cluster = Cluster([*groups.classes(()), *gang_objects(case)], gates=GATES)
    return plan(cluster, groups, seconds=60)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_plan_is_the_best_with_whole_gangs(part: int) -> None:
    partial = 0
    for seed in range(part, CASES, PARTS):
        case = gang_case(seed)
        found = planned(case)
        served = sum(len(node.pods) for node in found.nodes)
        assert (served, found.price) == cheapest(case), f"seed {seed}"
        partial += (served, found.price) != exhaustive.cheapest(case.plain)
    assert partial >= 3  # gangs make a difference in these cases


# What the plan does, and what it says


def gang(name: str = "g", least: int = 3, **spec: Any) -> PodGroup:
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return convert({"metadata": {"name": name, "namespace": "default"}, "spec": {**policy, **spec}}, PodGroup)


def members(count: int, of: str = "g", devices: int = 1, **spec: Any) -> list[Any]:
    return [pod(f"{of}-{n}", devices, schedulingGroup={"podGroupName": of}, **spec) for n in range(count)]


def topology(key: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def told(found: NodeGroups, *objects: Any, seconds: float = 20) -> ScaleUpPlan:
    templates = [template(count) for count in (1, 2, 3)]
    cluster = Cluster([*found.classes(()), *templates, *objects], gates=GATES)
    return plan(cluster, found, seconds=seconds)


def test_nodes_come_for_the_whole_gang() -> None:
    found = told(groups(group("a", 2)), gang(), *members(3))
    assert found.increases == {"a": 2}
    assert found.pods == {"default/g-0", "default/g-1", "default/g-2"}
    assert found.check == Check(3, ())
    assert found.proven


def test_no_node_comes_for_a_part_of_a_gang_and_the_plan_says_why() -> None:
    found = told(groups(group("a", 2, max=1)), gang(), *members(3), pod("alone", 1))
    assert found.pods == {"default/alone"}
    (left,) = found.unhelped
    assert (left.gang, left.needed, left.found, len(left.pods)) == ("default/g", 3, 2, 3)
    assert {one.code for one in left.refusals} == {NoHelp.NO_ROOM}
    (line,) = [one for one in lines(found, ScaleDown(), groups(group("a", 2, max=1))) if "podgroup" in one]
    assert line.endswith("podgroup default/g needs nodes for 3 pods at once, and 2 could get one")


def test_a_gang_uses_the_room_that_there_is() -> None:
    found = told(groups(group("a", 2)), *machines(1, 2), gang(), *members(3))
    assert found.increases == {"a": 1}
    assert len(found.pods) == 1
    assert found.check == Check(1, ())


def test_pods_beyond_those_that_a_gang_needs_come_last() -> None:
    """One node takes two pods: of the gang, or one of the gang and another one."""
    found = told(groups(group("a", 2, max=1)), gang(least=1), *members(2), pod("alone", 1))
    assert "default/g-0" in found.pods
    assert len(found.pods) == 2
    assert not found.check or not {*found.check.waiting} & {"default/g-0"}


def test_all_pods_of_a_gang_get_nodes_of_one_domain() -> None:
    """Zone b is dearer than a, but a has room for two pods only."""
    found = groups(group("a", 1, 1.0, max=2, labels={"zone": "a"}), group("b", 1, 2.0, max=3, labels={"zone": "b"}))
    assert told(found, gang(**topology("zone")), *members(3)).increases == {"b": 3}
    assert told(found, gang(), *members(3)).increases == {"a": 2, "b": 1}
    assert told(found, gang(least=4, **topology("zone")), *members(4)).nodes == ()


def test_a_gang_on_one_node_gets_one_that_is_large_enough() -> None:
    found = groups(group("a", 2, 1.0), group("b", 4, 9.0))
    whole = gang(**topology("kubernetes.io/hostname"))
    plan_ = told(found, whole, *members(3))
    assert plan_.increases == {"b": 1}
    assert plan_.check == Check(3, ())
    assert told(groups(group("a", 2, 1.0)), whole, *members(3)).nodes == ()


def test_pods_that_come_later_get_nodes_in_the_domain_of_their_gang() -> None:
    found = groups(group("a", 1, 1.0, labels={"zone": "a"}), group("b", 1, 2.0, labels={"zone": "b"}))
    there = machines(1, 0)
    there[1]["metadata"]["labels"]["zone"] = "b"
    early = members(2, devices=0)
    late = pod("g-late", 1, schedulingGroup={"podGroupName": "g"})
    assert told(found, *there, gang(least=2, **topology("zone")), *early, late).increases == {"b": 1}


def test_pods_that_may_not_be_one_gang_get_no_nodes() -> None:
    found = told(groups(group("a", 2)), gang(), *members(2), odd())
    assert not found.nodes
    assert len(found.blocked) == 3


def odd() -> Any:
    return pod("odd", 1, schedulingGroup={"podGroupName": "g"}, schedulerName="another")


def test_a_gang_that_lacks_pods_gets_no_nodes() -> None:
    found = told(groups(group("a", 2)), gang(least=3), *members(2))
    assert not found.nodes
    assert {one.pod for one in found.blocked} == {"default/g-0", "default/g-1"}


def test_of_many_gangs_those_that_fit_get_nodes() -> None:
    """Eight gangs of two, and nodes for five of them."""
    many = [one for n in range(8) for one in (gang(f"g{n}", 2), *members(2, f"g{n}"))]
    found = told(groups(group("a", 2, max=5)), *many)
    assert len(found.pods) == 10
    assert len(found.unhelped) == 3
    assert found.check == Check(10, ())
