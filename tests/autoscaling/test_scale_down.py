"""Which nodes can go, and why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.reasons.autoscaling import Stays
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.scale_down import SAFE_TO_EVICT, ScaleDown, scale_down
from dray.sim.cluster import Cluster
from tests.autoscaling.test_planner import asked, claim, group, groups
from tests.sim.test_cluster import machines, pod, template


def owned(tree: dict[str, Any], kind: str = "ReplicaSet", **meta: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "u", "controller": True}
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": [owner], **meta}}


def cluster(found: NodeGroups, nodes: dict[str, int], *objects: Any) -> Cluster:
    made = [
        one
        for own in found.groups
        for number in range(nodes.get(own.name, 0))
        for one in own.template.objects(f"{own.name}-{number}")
    ]
    return Cluster([*found.classes(()), template(1), template(2), *made, *objects])


def judged(found: NodeGroups, nodes: dict[str, int], *objects: Any) -> ScaleDown:
    return scale_down(cluster(found, nodes, *objects), found)


def kept(down: ScaleDown) -> dict[str, tuple[Stays, str]]:
    return {one.node: (one.code, one.subject) for one in down.kept}


def test_pods_move_together_and_empty_nodes_go_down_to_the_minimum() -> None:
    found = judged(
        groups(group("a", 2, min=1)), {"a": 3}, owned(pod("p", 1, nodeName="a-0")), owned(pod("q", 1, nodeName="a-1"))
    )
    assert len(found.removals) == 2
    assert [one.code for one in found.kept] == [Stays.MINIMUM]
    moved = [one for removal in found.removals for one in removal.moved]
    assert {one.pod for one in moved} <= {"default/p", "default/q"}


def test_the_dearest_node_goes_first() -> None:
    found = judged(
        groups(group("cheap", 2, 1.0), group("dear", 2, 9.0)),
        {"cheap": 1, "dear": 1},
        owned(pod("p", 2, nodeName="dear-0")),
    )
    assert [one.node for one in found.removals] == ["dear-0"]
    assert [(one.pod, one.node) for one in found.removals[0].moved] == [("default/p", "cheap-0")]


def test_removals_add_up() -> None:
    """Each of three nodes could hand its pod to another one, but only one of them."""
    pods = [owned(pod(f"p{number}", 0, nodeName=f"a-{number}")) for number in range(3)]
    found = judged(groups(group("a", 0, cpu=2)), {"a": 3}, *pods)
    assert len(found.removals) == 1
    assert {code for code, _ in kept(found).values()} == {Stays.NO_PLACE}


@pytest.mark.parametrize(
    ("obstacle", "expected"),
    [
        (pod("p", 1, nodeName="a-0"), (Stays.NO_CONTROLLER, "default/p")),
        (
            owned(pod("p", 1, nodeName="a-0"), annotations={SAFE_TO_EVICT: "false"}),
            (Stays.NOT_TO_BE_EVICTED, "default/p"),
        ),
        (
            owned(pod("p", 1, nodeName="a-0", nodeSelector={"kubernetes.io/hostname": "a-0"})),
            (Stays.NO_PLACE, "default/p"),
        ),
    ],
)
def test_a_node_stays_for_a_pod_that_cannot_move(obstacle: Any, expected: tuple[Stays, str]) -> None:
    found = judged(groups(group("a", 2)), {"a": 2}, obstacle)
    assert kept(found)["a-0"] == expected
    assert [one.node for one in found.removals] == ["a-1"]


def test_budgets_are_spent_by_removals() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    }
    pods = [owned(pod(f"p{n}", 0, nodeName=f"a-{n}"), labels={"app": "x"}) for n in range(2)]
    found = judged(groups(group("a", 0, cpu=1)), {"a": 2}, budget, *machines(1), *pods)  # node-0 has room for both
    assert len(found.removals) == 1
    assert [*kept(found).values()] == [(Stays.BUDGET, "default/b")]


def test_daemons_keep_no_node() -> None:
    daemon = owned(pod("d", 1, nodeName="a-0"), kind="DaemonSet")
    assert len(judged(groups(group("a", 2)), {"a": 1}, daemon).removals) == 1


def held_by(*pods: dict[str, Any]) -> dict[str, Any]:
    """A claim that holds a device of node a-0 and is reserved for pods."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a-0", "device": "gpu-0"}
    users = [{"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in pods]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    return {**claim("held", {"name": "gpu", "exactly": asked(1)}), "status": status}


def test_devices_that_a_claim_holds_keep_their_node() -> None:
    found = judged(groups(group("a", 2)), {"a": 2}, held_by())
    assert kept(found) == {"a-0": (Stays.HELD, "default/held")}


def test_devices_that_a_daemon_holds_keep_no_node() -> None:
    daemon = owned(pod("d", claim="held", nodeName="a-0"), kind="DaemonSet", uid="uid-d")
    found = judged(groups(group("a", 2)), {"a": 1}, daemon, held_by(daemon))
    assert kept(found) == {}
    assert [one.node for one in found.removals] == ["a-0"]


def test_nodes_of_no_group_are_left_alone() -> None:
    found = groups(group("a", 2))
    made = cluster(found, {})
    made.add(found.groups[0].template.adorned({"dray.dev/node-group": "other"}, ()).objects("stranger")[0])
    assert scale_down(made, found) == ScaleDown()
