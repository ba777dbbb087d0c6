"""Scores: what speaks for a node, and how rules weigh against each other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.core.scores import (
    BetterAlternatives,
    FewTaints,
    LeastAllocated,
    PreferredNeighbours,
    PreferredNodes,
    Score,
    Spreading,
    best,
)
from dray.verdicts.demand import Candidate
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable, Sample
from tests.scheduler.objects import node, pod, put

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def table() -> NodeTable:
    table = NodeTable()
    put(table, node("a", {"zone": "1"}))
    put(table, node("b", {"zone": "2"}))
    put(table, node("c", {"zone": "2"}, taints=[{"key": "old", "effect": "PreferNoSchedule"}]))
    return table


def all_of(table: NodeTable) -> Sample:
    return table.sample(table.everyone, 0, 100)


def scored(table: NodeTable, rule: Score, wanted: Pod) -> list[int] | None:
    scores = rule.scores(Candidate(wanted), all_of(table))
    return None if scores is None else [round(score) for score in scores]


def owned(name: str, **spec: Any) -> Pod:
    made = pod(name, **spec)
    owner = [{"apiVersion": "v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    tree = msgspec.to_builtins(made)
    tree["metadata"]["ownerReferences"] = owner
    return msgspec.convert(tree, Pod)


def test_the_emptier_node_is_better_also_with_the_pod_itself(table: NodeTable) -> None:
    table.place(pod("q", resources={"requests": {"cpu": "2", "memory": "4Gi"}}), "a")
    wanted = pod("p", resources={"requests": {"cpu": "2", "memory": "4Gi"}})
    assert scored(table, LeastAllocated(), wanted) == [0, 50, 50]


def test_preferred_nodes_get_the_weight_of_the_terms_that_match(table: NodeTable) -> None:
    def prefers(weight: int, key: str, value: str) -> dict[str, Any]:
        expression = {"key": key, "operator": "In", "values": [value]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    terms = [prefers(30, "zone", "2"), prefers(10, "kubernetes.io/hostname", "c")]
    assert scored(table, PreferredNodes(), pod("p", affinity={"nodeAffinity": {PREFERRED: terms}})) == [0, 75, 100]
    assert scored(table, PreferredNodes(), pod("p")) is None


def test_soft_taints_count_against_a_node_unless_tolerated(table: NodeTable) -> None:
    assert scored(table, FewTaints(), pod("p")) == [100, 100, 0]
    tolerant = pod("p", tolerations=[{"key": "old", "operator": "Exists"}])
    assert scored(table, FewTaints(), tolerant) == [100, 100, 100]


def test_pods_of_one_workload_keep_apart(table: NodeTable) -> None:
    rule = Spreading(Neighbours(table, lambda _: {}))
    table.place(owned("q1"), "a")
    table.place(owned("q2"), "a")
    table.place(owned("q3"), "b")
    assert scored(table, rule, owned("p")) == [0, 50, 100]
    assert scored(table, rule, pod("alone")) is None


def test_soft_spreading_counts_matching_pods_of_a_domain(table: NodeTable) -> None:
    rule = Spreading(Neighbours(table, lambda _: {}))
    table.place(pod("q", labels={"app": "x"}), "b")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    assert scored(table, rule, pod("p", topologySpreadConstraints=[constraint])) == [100, 0, 0]


def test_preferred_neighbours_attract_and_repel(table: NodeTable) -> None:
    rule = PreferredNeighbours(Neighbours(table, lambda _: {}))
    table.place(pod("q", labels={"app": "x"}), "b")
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    attract = {"podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]}}
    repel = {"podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]}}
    assert scored(table, rule, pod("p", affinity=attract)) == [0, 100, 100]
    assert scored(table, rule, pod("p", affinity=repel)) == [100, 0, 0]
    assert scored(table, rule, pod("p")) is None


def test_better_alternatives_are_scored_in_proportion(table: NodeTable) -> None:
    by_name = {"a": 8.0, "b": 4.0, "c": 0.0}
    assert scored(table, BetterAlternatives(lambda info: by_name[info.name]), pod("p")) == [100, 50, 0]
    assert scored(table, BetterAlternatives(lambda info: 0.0), pod("p")) is None


def test_weights_decide_between_rules_and_the_first_of_equals_wins(table: NodeTable) -> None:
    against_a = BetterAlternatives(lambda info: 0.0 if info.name == "a" else 8.0)
    for_a = BetterAlternatives(lambda info: 8.0 if info.name == "a" else 0.0)
    candidate = Candidate(pod("p"))
    assert best(candidate, all_of(table), [(against_a, 1), (for_a, 2)]).name == "a"
    assert best(candidate, all_of(table), [(against_a, 2), (for_a, 1)]).name == "b"
    assert best(candidate, all_of(table), [(against_a, 0)]).name == "a"
    assert best(candidate, all_of(table), []).name == "a"
