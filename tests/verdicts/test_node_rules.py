"""Filters: which nodes accept a pod, also as nodes and pods come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.types.core import Pod
from dray.verdicts.demand import Candidate
from dray.verdicts.kept_sets import KeptSets
from dray.verdicts.node_rules import NODE_RULES, NodeRule
from dray.verdicts.nodes import NodeTable
from tests.scheduler.objects import node, pod, put

RULES = {f.name: f for f in NODE_RULES}


def accepting(table: NodeTable, name: str, wanted: Pod, sets: KeptSets | None = None) -> set[str]:
    sets = sets or KeptSets(table)
    return {info.name for info in table.named(sets.accepting(RULES[name], Candidate(wanted)))}


def three() -> NodeTable:
    table = NodeTable()
    put(table, node("a", {"zone": "1"}))
    put(table, node("b", {"zone": "2"}, taints=[{"key": "gpu", "value": "only", "effect": "NoSchedule"}]))
    put(table, node("c", {"zone": "2"}, cpu="1"))
    return table


def test_taints_are_kept_away_from_unless_tolerated() -> None:
    assert accepting(three(), "TaintToleration", pod("p")) == {"a", "c"}
    tolerant = pod("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert accepting(three(), "TaintToleration", tolerant) == {"a", "b", "c"}
    [reason] = RULES["TaintToleration"].reasons(Candidate(pod("p")), three().infos[1])
    assert reason == NodeReason(NodeCode.TAINT, "gpu", "only")


def test_node_selector_and_required_affinity_must_both_hold() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "c"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert accepting(three(), "NodeAffinity", pod("p", nodeSelector={"zone": "2"})) == {"b", "c"}
    assert accepting(three(), "NodeAffinity", pod("p", nodeSelector={"zone": "2"}, affinity=affinity)) == {"c"}


def test_resources_count_what_is_placed() -> None:
    table = three()
    wanted = pod("p", resources={"requests": {"cpu": "800m"}})
    sets = KeptSets(table)
    assert accepting(table, "NodeResourcesFit", wanted, sets) == {"a", "b", "c"}
    table.place(pod("q", resources={"requests": {"cpu": "500m"}}), "c")
    assert accepting(table, "NodeResourcesFit", wanted, sets) == {"a", "b"}
    [reason] = RULES["NodeResourcesFit"].reasons(Candidate(wanted), table.infos[2])
    assert reason == NodeReason(NodeCode.INSUFFICIENT, "cpu", wanted=800, found=500)
    table.unplace("uid-q")
    assert accepting(table, "NodeResourcesFit", wanted, sets) == {"a", "b", "c"}


def test_host_ports_collide_on_the_same_address_or_any() -> None:
    table = three()
    table.place(pod("q", ports=[{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}]), "a")
    other = pod("p", ports=[{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.2"}])
    anywhere = pod("p", ports=[{"containerPort": 1, "hostPort": 80}])
    assert accepting(table, "NodePorts", other) == {"a", "b", "c"}
    assert accepting(table, "NodePorts", anywhere) == {"b", "c"}


def test_init_containers_raise_the_demand_and_sidecars_add_to_it() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": "i", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    first = pod("p", resources={"requests": {"cpu": "1"}}, initContainers=[container("3")])
    beside = pod("p", resources={"requests": {"cpu": "1"}}, initContainers=[container("3", restartPolicy="Always")])
    assert Candidate(first).demand.amounts["cpu"] == 3000
    assert Candidate(beside).demand.amounts["cpu"] == 4000


STEPS = st.lists(
    st.tuples(st.sampled_from(["node", "drop", "place", "unplace"]), st.integers(0, 5), st.integers(1, 4)), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_kept_sets_always_equal_sets_judged_anew(steps: list[tuple[str, int, int]]) -> None:
    table = NodeTable()
    sets = KeptSets(table)
    wanted = pod("w", resources={"requests": {"cpu": "2"}}, nodeSelector={"zone": "1"})
    rules: list[NodeRule] = [RULES["NodeResourcesFit"], RULES["NodeAffinity"]]
    for action, n, size in steps:
        if action == "node":
            put(table, node(f"n{n}", {"zone": str(size % 2)}, cpu=str(size)))
        elif action == "drop":
            table.remove(f"n{n}")
        elif action == "place":
            table.place(pod(f"p{n}", resources={"requests": {"cpu": str(size)}}), f"n{size}")
        else:
            table.unplace(f"uid-p{n}")
        for rule in rules:
            assert sets.accepting(rule, Candidate(wanted)) == KeptSets(table).accepting(rule, Candidate(wanted))
