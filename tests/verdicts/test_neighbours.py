"""Rules about other pods: affinity, anti-affinity and spreading."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from msgspec.structs import replace

from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.verdicts.census import PodCensus
from dray.verdicts.demand import Candidate
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable
from tests.scheduler.objects import node, pod, put

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LABELS = {"team": {"kind": "ours"}}


@pytest.fixture
def table() -> NodeTable:
    """Nodes a and b in zone 1, c in zone 2, d without a zone."""
    table = NodeTable()
    for name, zone in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "")):
        put(table, node(name, {"zone": zone} if zone else {}))
    return table


def term(app: str, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def refused(
    table: NodeTable, wanted: Any, nodes: int | None = None, eligible: int | None = None
) -> dict[NodeCode, set[str]]:
    """The nodes that each reason refuses; the same whether pods are looked at or were counted before."""
    asked = table.everyone if nodes is None else nodes
    counted = asked if eligible is None else eligible
    looked = answers(Neighbours(table, labels_of), Candidate(wanted), asked, counted)
    assert looked == answers(with_census(table, wanted), Candidate(wanted), asked, counted)
    found: dict[NodeCode, set[str]] = {}
    for reason, bad in looked.items():
        found.setdefault(reason.code, set()).update(info.name for info in table.named(bad & asked))
    return found


def labels_of(namespace: str) -> dict[str, str]:
    return LABELS.get(namespace, {})


def answers(rules: Neighbours, candidate: Candidate, asked: int, counted: int) -> dict[NodeReason, int]:
    found: dict[NodeReason, int] = {}
    for reason, bad in (*rules.affinity(candidate), *rules.spreading(candidate, asked, lambda _: counted)):
        if bad & asked:
            found[reason] = found.get(reason, 0) | bad & asked
    return found


def with_census(table: NodeTable, wanted: Any) -> Neighbours:
    rules = Neighbours(table, labels_of)
    rules.census = PodCensus(table, rules.question(Candidate(wanted)))
    assert rules.census.go_on(1 << 30)
    return rules


def test_a_pod_without_rules_is_refused_nowhere(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}), "a")
    assert refused(table, pod("p")) == {}


def test_affinity_keeps_to_the_domain_of_matching_pods(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}), "a")
    assert refused(table, pod("p", **near(term("x")))) == {NodeCode.POD_AFFINITY: {"c", "d"}}
    assert refused(table, pod("p", **near(term("y")))) == {NodeCode.POD_AFFINITY: {"a", "b", "c", "d"}}


def test_the_first_of_a_group_that_wants_its_own_kind_may_go_anywhere_with_a_domain(table: NodeTable) -> None:
    first = pod("p", labels={"app": "x"}, **near(term("x")))
    assert refused(table, first) == {NodeCode.POD_AFFINITY: {"d"}}


def test_anti_affinity_works_in_both_directions(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}, **away(term("y"))), "a")
    assert refused(table, pod("p", **away(term("x")))) == {NodeCode.POD_ANTI_AFFINITY: {"a", "b"}}
    assert refused(table, pod("p", labels={"app": "y"})) == {NodeCode.EXISTING_ANTI_AFFINITY: {"a", "b"}}
    table.unplace("uid-q")
    assert refused(table, pod("p", labels={"app": "y"}, **away(term("x")))) == {}


def test_terms_mean_the_namespace_of_their_pod_unless_they_say_otherwise(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}, namespace="team"), "a")
    host = "kubernetes.io/hostname"
    assert refused(table, pod("p", **away(term("x", host)))) == {}
    meant: list[dict[str, Any]] = [
        {"namespaces": ["team"]},
        {"namespaceSelector": {"matchLabels": {"kind": "ours"}}},
        {"namespaceSelector": {}},
        {"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"kind": "ours"}}},
    ]
    for more in meant:
        assert refused(table, pod("p", **away(term("x", host, **more)))) == {NodeCode.POD_ANTI_AFFINITY: {"a"}}, more
    theirs = {"namespaceSelector": {"matchLabels": {"kind": "theirs"}}}
    assert refused(table, pod("p", **away(term("x", host, **theirs)))) == {}


def test_a_pod_that_is_wanted_near_matches_all_terms(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}), "a")
    table.place(pod("r", labels={"tier": "web"}), "b")
    tier = {"labelSelector": {"matchLabels": {"tier": "web"}}, "topologyKey": "zone"}
    assert refused(table, pod("p", **near(term("x"), tier))) == {NodeCode.POD_AFFINITY: {"a", "b", "c", "d"}}
    table.place(pod("s", labels={"app": "x", "tier": "web"}), "c")
    assert refused(table, pod("p", **near(term("x"), tier))) == {NodeCode.POD_AFFINITY: {"a", "b", "d"}}


def test_keys_of_a_term_stand_for_the_labels_of_the_pod_itself(table: NodeTable) -> None:
    table.place(pod("old", labels={"app": "x", "rev": "1"}), "a")
    for keys, rev, bad in (
        ({"matchLabelKeys": ["rev"]}, "1", {"a", "b"}),
        ({"matchLabelKeys": ["rev"]}, "2", set()),
        ({"matchLabelKeys": ["unset"]}, "2", {"a", "b"}),
        ({"mismatchLabelKeys": ["rev"]}, "1", set()),
        ({"mismatchLabelKeys": ["rev"]}, "2", {"a", "b"}),
    ):
        found = refused(table, pod("p", labels={"app": "x", "rev": rev}, **away(term("x", **keys))))
        assert found == ({NodeCode.POD_ANTI_AFFINITY: bad} if bad else {}), (keys, rev)


def test_placed_pods_refuse_with_their_own_labels_for_the_keys_that_they_name(table: NodeTable) -> None:
    table.place(pod("old", labels={"app": "x", "rev": "1"}, **away(term("x", matchLabelKeys=["rev"]))), "a")
    assert refused(table, pod("p", labels={"app": "x", "rev": "2"})) == {}
    assert refused(table, pod("p", labels={"app": "x", "rev": "1"})) == {NodeCode.EXISTING_ANTI_AFFINITY: {"a", "b"}}


def spread(skew: int = 1, **more: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }
    return {"labels": {"app": "x", "rev": "2"}, "topologySpreadConstraints": [constraint]}


def test_spreading_refuses_crowded_domains_and_nodes_without_a_domain(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}), "a")
    assert refused(table, pod("p", **spread())) == {
        NodeCode.SPREAD: {"a", "b"},
        NodeCode.SPREAD_LABEL: {"d"},
    }
    assert refused(table, pod("p", **spread(skew=2))) == {NodeCode.SPREAD_LABEL: {"d"}}
    table.place(pod("r", labels={"app": "x"}), "c")
    assert refused(table, pod("p", **spread())) == {NodeCode.SPREAD_LABEL: {"d"}}


def test_pods_of_other_namespaces_and_pods_that_go_do_not_count_for_spreading(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}, namespace="team"), "a")
    assert NodeCode.SPREAD not in refused(table, pod("p", **spread()))
    going = pod("r", labels={"app": "x"})
    table.place(replace(going, metadata=replace(going.metadata, deletionTimestamp="2026-01-01T00:00:00Z")), "a")
    assert NodeCode.SPREAD not in refused(table, pod("p", **spread()))
    table.place(pod("s", labels={"app": "x"}), "a")
    assert refused(table, pod("p", **spread()))[NodeCode.SPREAD] == {"a", "b"}


def test_pods_are_spread_apart_from_those_with_another_value_of_a_key(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x", "rev": "1"}), "a")
    assert NodeCode.SPREAD in refused(table, pod("p", **spread()))
    assert NodeCode.SPREAD not in refused(table, pod("p", **spread(matchLabelKeys=["rev"])))


def test_too_few_domains_count_as_an_empty_one(table: NodeTable) -> None:
    for name, where in (("q", "a"), ("r", "c")):
        table.place(pod(name, labels={"app": "x"}), where)
    assert NodeCode.SPREAD not in refused(table, pod("p", **spread(minDomains=2)))
    assert refused(table, pod("p", **spread(minDomains=3)))[NodeCode.SPREAD] == {"a", "b", "c"}


def test_a_full_domain_still_counts_when_pods_are_spread(table: NodeTable) -> None:
    """The empty zone 2 has no room: the pod waits for it instead of crowding zone 1."""
    table.place(pod("q", labels={"app": "x"}), "a")
    with_room = 0b0011
    assert refused(table, pod("p", **spread()), nodes=with_room) == {}
    assert refused(table, pod("p", **spread()), nodes=with_room, eligible=table.everyone) == {
        NodeCode.SPREAD: {"a", "b"}
    }


def test_preferences_add_up_over_terms_and_pods(table: NodeTable) -> None:
    table.place(pod("q", labels={"app": "x"}), "a")
    table.place(pod("r", labels={"app": "x"}), "c")
    affinity = {
        "podAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": term("x")}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": term("x", "kubernetes.io/hostname")}]},
    }
    rules = Neighbours(table, lambda _: {})
    wanted = pod("p", affinity=affinity)
    for asked in (rules, with_census(table, wanted)):
        found = asked.preference(Candidate(wanted), range(4))
        assert [found.get(position, 0) for position in range(4)] == [7, 10, 7, 0]
    assert rules.preference(Candidate(pod("p")), range(4)) == {}


def test_many_terms_are_asked_about_each_pod_once(table: NodeTable) -> None:
    for number in range(300):
        table.place(pod(f"q{number}", labels={"app": "x"}), "a")
    began = time.thread_time()
    assert refused(table, pod("p", **near(*[term("x")] * 300))) == {NodeCode.POD_AFFINITY: {"c", "d"}}
    assert time.thread_time() - began < 1  # once for each term took 10 s


def some_rules(chance: random.Random) -> dict[str, Any]:
    """Rules of all kinds about pods, whose names and topologies are few."""

    def some() -> list[dict[str, Any]]:
        return [
            term(chance.choice("xyz"), chance.choice(("zone", "kubernetes.io/hostname", "rack")), **among)
            for among in chance.choices(
                ({}, {"namespaceSelector": {}}, {"namespaces": ["team"]}), k=chance.randrange(3)
            )
        ]

    def weighted() -> list[dict[str, Any]]:
        return [{"weight": chance.randint(1, 9), "podAffinityTerm": one} for one in some()]

    spread = [
        {**one, "maxSkew": chance.randint(1, 2), "whenUnsatisfiable": when}
        for one in some()
        for when in chance.choices(("DoNotSchedule", "ScheduleAnyway"))
    ]
    for one in spread:
        one.pop("namespaceSelector", None), one.pop("namespaces", None)
    kinds = {kind: {REQUIRED: some(), PREFERRED: weighted()} for kind in ("podAffinity", "podAntiAffinity")}
    return {"affinity": kinds, "topologySpreadConstraints": spread}


@pytest.mark.parametrize("seed", range(40))
def test_a_census_in_parts_says_what_looking_says_whatever_changes_meanwhile(seed: int) -> None:
    chance, table = random.Random(seed), NodeTable()

    def change() -> None:
        name = f"n{chance.randrange(6)}"
        if chance.random() < 0.2:
            put(table, node(name, {"zone": chance.choice("12")} if chance.random() < 0.8 else {}))
        elif chance.random() < 0.1:
            table.remove(name)
        else:
            who = f"q{chance.randrange(30)}"
            rules = some_rules(chance) if chance.random() < 0.2 else {}
            namespace = chance.choice(("default", "team"))
            table.unplace(f"uid-{who}")
            table.place(pod(who, labels={"app": chance.choice("xyz")}, namespace=namespace, **rules), name)

    for _ in range(60):
        change()
    wanted = pod("p", labels={"app": chance.choice("xyz")}, **some_rules(chance))
    rules, parts = Neighbours(table, labels_of), 0
    census = rules.census = PodCensus(table, rules.question(Candidate(wanted)))
    while not census.go_on(1):
        parts += 1
        if parts < 40:
            change()
    for among in (table.everyone, 0b101011 & table.everyone):
        looking = Neighbours(table, labels_of)
        assert answers(rules, Candidate(wanted), among, table.everyone) == answers(
            looking, Candidate(wanted), among, table.everyone
        )
        positions = [info.position for info in table.named(among)]
        said = looking.preference(Candidate(wanted), positions)
        counted = rules.preference(Candidate(wanted), positions)
        assert {at: counted.get(at, 0) for at in positions} == {at: said.get(at, 0) for at in positions}
        for constraint in wanted.spec.topologySpreadConstraints:
            assert rules.spread_counts(Candidate(wanted), constraint, among) == looking.spread_counts(
                Candidate(wanted), constraint, among
            )


def test_a_selector_of_very_many_values_is_compared_quickly(table: NodeTable) -> None:
    for number in range(300):
        table.place(pod(f"q{number}", labels={"app": f"x{number}"}), "a")
    values = [f"y{number}" for number in range(50_000)]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    began = time.thread_time()
    assert refused(table, pod("p", **away({"labelSelector": selector, "topologyKey": "zone"}))) == {}
    assert time.thread_time() - began < 0.1  # one value after the other took 0.5 s
