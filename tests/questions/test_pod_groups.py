"""How groups fare: rows for `dray top groups` and for programs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from dray.api.types.core import Node, Pod
from dray.api.types.scheduling import PodGroup
from dray.inspect.snapshot import Snapshot
from dray.questions import GroupRow, usage
from tests import objects


def group(least: int = 2, message: str = "", **spec: Any) -> PodGroup:
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}] if message else []}
    tree = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": policy, **spec}}
    return convert({**tree, "status": status}, PodGroup)


def members(*nodes: str, phase: str = "Running") -> list[Pod]:
    """Pods on nodes; an empty name is a pod that waits."""
    group_ = {"podGroupName": "g"}
    trees = [
        objects.pod(f"p{n}", namespace="default", node=node, schedulingGroup=group_, status={"phase": phase})
        for n, node in enumerate(nodes)
    ]
    return [convert(tree, Pod) for tree in trees]


def row(*objects: Any) -> GroupRow:
    (found,) = usage(Snapshot.of(*objects), "groups")
    assert isinstance(found, GroupRow)
    return found


@pytest.mark.parametrize(
    ("least", "nodes", "state"),
    [
        (2, (), "empty"),
        (2, ("", ""), "waiting"),
        (2, ("",), "waiting"),
        (2, ("a", "b"), "placed"),
        (2, ("a", "b", ""), "partly placed"),
        (3, ("a", "b", ""), "waiting"),
        (0, ("a", ""), "partly placed"),
        (0, ("",), "waiting"),
    ],
)
def test_a_group_is_placed_when_it_has_what_it_needs(least: int, nodes: tuple[str, ...], state: str) -> None:
    found = row(group(least), *members(*nodes))
    assert (found.state, found.pods, found.placed) == (state, len(nodes), len([*filter(None, nodes)]))


def test_pods_that_have_finished_do_not_count() -> None:
    assert row(group(), *members("a", "b", phase="Succeeded")).state == "empty"


def test_what_a_group_waits_for_is_what_the_scheduler_says() -> None:
    assert row(group(message="not yet"), *members("", "")).waits_for == "not yet"
    assert row(group(message="not yet"), *members("a", "b")).waits_for == ""


def test_the_domain_is_that_of_the_nodes() -> None:
    nodes = [convert(objects.node(name, labels={"rack": "r1"}), Node) for name in ("a", "b")]
    constrained = group(schedulingConstraints={"topology": [{"key": "rack"}]})
    found = row(constrained, *nodes, *members("a", "b"))
    assert (found.topology, found.domain, found.nodes) == ("rack", "r1", ("a", "b"))
    assert row(constrained, *members("a", "b")).domain == ""  # whoever may not list nodes


def test_groups_of_other_namespaces_are_left_out() -> None:
    assert usage(Snapshot.of(group()), "groups", namespace="other") == []
