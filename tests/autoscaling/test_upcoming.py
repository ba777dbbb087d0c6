"""Nodes on their way count with their template until a deadline."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dray.api.times import timestamp
from dray.api.types.core import Node, Taint
from dray.api.types.resource import ResourceSlice
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.planner import plan
from dray.autoscaling.upcoming import add_ordered, complete_nodes
from dray.sim.cluster import Cluster
from tests.autoscaling.test_planner import daemon_set, group, groups
from tests.sim.test_cluster import pod, template

BORN = 1_000_000.0


def cluster(found: NodeGroups, *objects: Any) -> Cluster:
    return Cluster([*found.classes(()), template(1), *objects])


def silent(found: NodeGroups) -> Node:
    """A node that registered itself, is not ready, and whose driver has said nothing yet."""
    node = found.groups[0].template.objects("a-0")[0]
    assert isinstance(node, Node)
    taint = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
    meta = replace(node.metadata, creationTimestamp=timestamp(BORN), uid="u")
    return replace(node, metadata=meta, spec=replace(node.spec, taints=(taint,)))


def test_a_young_node_has_the_devices_that_its_driver_will_publish() -> None:
    found = groups(group("a", 2), provisionSeconds=100)
    made = cluster(found, silent(found), pod("p"), pod("q"))
    assert plan(made, found).increases == {"a": 1}
    assert complete_nodes(made, found, BORN + 99) == ["a-0"]
    assert not plan(made, found).nodes
    assert len([*made.all(ResourceSlice)]) == 1


def test_an_old_node_without_devices_is_taken_as_it_is() -> None:
    found = groups(group("a", 2), provisionSeconds=100)
    made = cluster(found, silent(found), pod("p"))
    assert complete_nodes(made, found, BORN + 100) == []
    assert plan(made, found).increases == {"a": 1}


def test_a_node_whose_drivers_have_all_published_is_left_alone() -> None:
    found = groups(group("a", 2))
    node, *slices = found.groups[0].template.objects("a-0")
    assert isinstance(node, Node)
    young = replace(node, metadata=replace(node.metadata, creationTimestamp=timestamp(BORN)))
    assert complete_nodes(cluster(found, young, *slices), found, BORN + 1) == []


def test_nodes_on_order_take_pods_that_wait() -> None:
    found = groups(group("a", 1, max=9))
    made = cluster(found, *(pod(f"p{number}") for number in range(3)))
    add_ordered(made, found, {"a": 2})
    made.settle()
    assert plan(made, found, sizes={"a": 2}).increases == {"a": 1}


def test_daemons_come_to_nodes_on_order() -> None:
    found = groups(group("a", 0, max=9, cpu=4))
    made = cluster(found, pod("p"))
    add_ordered(made, found, {"a": 1}, [daemon_set("4")])
    made.settle()
    assert [one.metadata.name for one in made.pods_on("a-ordered-1")] == ["d-a-ordered-1"]
