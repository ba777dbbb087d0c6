"""Nodes and preemption: who makes room on a node that there is needs none, and its victims may."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.planner import plan
from dray.autoscaling.plans import Check, ScaleUpPlan
from dray.autoscaling.report import lines, tree
from dray.autoscaling.scale_down import ScaleDown
from dray.sim.cluster import Cluster
from tests.autoscaling.test_gangs import gang, members
from tests.autoscaling.test_planner import group, groups
from tests.sim.test_cluster import machines, pod, template

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}


def running(*names: str, owned: bool = True, gates: FeatureGates | None = None, nodes: int = 1) -> Cluster:
    """Nodes with two devices each, used by pods of priority 0."""
    made = Cluster([*machines(nodes, 2), template(1), template(2)], gates=gates)
    for name in names:
        one = pod(name, 1)
        one["metadata"]["ownerReferences"] = [OWNER] if owned else []
        made.submit(one)
    made.settle()
    assert not made.waiting()
    return made


def planned(cluster: Cluster, *pods: Any, **settings: Any) -> tuple[ScaleUpPlan, NodeGroups]:
    found = groups(group("a", 1), **settings)
    cluster.add(*found.classes(()), *pods)
    cluster.settle()
    return plan(cluster, found), found


def test_the_victim_gets_the_node_and_not_the_pod_that_preempts_it() -> None:
    found, written = planned(running("x", "y"), pod("important", 1, priority=10))
    (victim,) = found.preempted
    assert found.preempted == {victim: "default/important"}
    assert found.pods == {victim}
    assert found.check == Check(1, ())
    assert f"pod {victim} is preempted by default/important" in lines(found, ScaleDown(), written)
    assert tree(found, ScaleDown(), written)["preempted"] == [{"pod": victim, "by": "default/important"}]


def test_nobody_makes_a_pod_again_that_has_no_controller() -> None:
    found, _ = planned(running("x", "y", owned=False), pod("important", 1, priority=10))
    assert len(found.preempted) == 1
    assert not found.nodes


def test_where_preemption_is_off_the_pod_gets_the_node() -> None:
    found, _ = planned(running("x", "y"), pod("important", 1, priority=10), preemption=False)
    assert (found.preempted, found.pods) == ({}, {"default/important"})


def test_pods_of_equal_importance_preempt_nobody() -> None:
    found, _ = planned(running("x", "y"), pod("equal", 1))
    assert (found.preempted, found.pods) == ({}, {"default/equal"})


def test_a_gang_that_preempts_needs_no_nodes_and_its_victims_do() -> None:
    cluster = running("x", "y", gates=FeatureGates.of({"GenericWorkload": True}))
    found, _ = planned(cluster, gang(least=2, priority=10), *members(2, priority=10))
    assert {*found.preempted} == {"default/x", "default/y"}
    assert found.pods == {"default/x", "default/y"}


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "EvictionByEvictionAPI"])
def test_victims_that_are_leaving_count_as_gone(reason: str) -> None:
    """Others that end may take as long as they like, so the pod preempts again."""
    cluster = running("y")
    leaving = pod("x", 1, nodeName="node-0", resourceClaims=[], priority=0)
    needs = {"requests": {"cpu": "63"}}
    leaving["spec"]["containers"][0]["resources"] = needs
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    leaving["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}
    cluster.add(leaving)
    wanted = pod("important", 0, priority=10)
    wanted["spec"]["containers"][0]["resources"] = needs
    found, _ = planned(cluster, wanted)
    assert not found.nodes
    is_gone = reason == "PreemptionByScheduler"
    assert ("default/y" in found.preempted) is False
    assert bool(found.preempted) is not is_gone
