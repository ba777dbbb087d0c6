"""The table of nodes: which of them are compared, and how full they are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dray.core.scores import FewTaints, LeastAllocated, best
from dray.verdicts.demand import Candidate
from dray.verdicts.nodes import NodeTable
from tests.scheduler.objects import node, pod


def table_of(size: int) -> NodeTable:
    table = NodeTable()
    for position in range(size):
        table.upsert(node(f"n{position}"), position)
    return table


@given(st.sets(st.integers(0, 39)), st.integers(0, 39), st.integers(1, 50))
@example({*range(0, 40, 9)}, 3, 4)  # the first members are farther apart than most
def test_a_sample_begins_at_a_position_and_wraps_around(chosen: set[int], start: int, limit: int) -> None:
    table = table_of(40)
    ordered = sorted(p for p in chosen if p >= start) + sorted(p for p in chosen if p < start)
    positions = sum(1 << p for p in chosen)
    sample = table.sample(positions, start, limit)
    assert sample.positions == ordered[:limit]
    assert [info.name for info in sample.infos] == [f"n{p}" for p in ordered[:limit]]
    assert [info.position for info in table.named(positions)] == sorted(chosen)


def test_the_emptiest_node_is_best_and_the_first_of_equals() -> None:
    table = table_of(3)
    everyone = table.sample(0b111, 0, 100)
    rules = [(LeastAllocated(), 1.0)]
    candidate = Candidate(pod("new"))
    assert best(candidate, everyone, rules).name == "n0"
    table.place(pod("a"), "n0")
    assert best(candidate, everyone, rules).name == "n1"
    table.place(pod("b"), "n1")
    assert best(candidate, everyone, rules).name == "n2"
    table.unplace(pod("a").metadata.uid)
    assert best(candidate, everyone, rules).name == "n0"


def test_scores_are_what_is_left_of_a_node() -> None:
    table = NodeTable()
    table.upsert(node("small", cpu="1", memory="1Gi"), 0)
    table.upsert(node("bare", cpu="0", memory="0"), 1)
    table.place(pod("p", resources={"requests": {"cpu": "500m", "memory": "512Mi"}}), "small")
    wanted = Candidate(pod("q", resources={"requests": {"cpu": "250m", "memory": "256Mi"}}))
    scores = LeastAllocated().scores(wanted, table.sample(3, 0, 9))
    assert scores == pytest.approx([25.0, 100.0])


@given(
    st.lists(
        st.tuples(st.sampled_from(("ask", "node", "place", "remove")), st.integers(0, 2), st.integers(0, 2)),
        max_size=40,
    )
)
def test_scores_that_are_kept_are_those_of_a_new_table(steps: list[tuple[str, int, int]]) -> None:
    table = table_of(2)
    rule = LeastAllocated()
    for what, number, at in steps:
        wanted = pod(f"p{number}", resources={"requests": {"cpu": f"{100 * number}m"}})
        if what == "node":
            table.upsert(node(f"n{at}", cpu=str(1 + number)), at)
        elif what == "place":
            table.place(wanted, f"n{at}")
        elif what == "remove":
            table.unplace(wanted.metadata.uid)
        else:
            nodes = table.everyone
            again = NodeTable()
            for info in table:
                assert info.node is not None
                again.upsert(info.node, info.position)
                for placed in info.pods.values():
                    again.place(placed.pod, info.name)
            scores = rule.scores(Candidate(wanted), table.sample(nodes, 0, 9))
            assert scores == pytest.approx(rule.scores(Candidate(wanted), again.sample(nodes, 0, 9)))


def test_taints_count_only_while_a_node_has_them() -> None:
    table = table_of(2)
    candidate = Candidate(pod("p"))
    assert FewTaints().scores(candidate, table.sample(3, 0, 9)) is None
    table.upsert(node("n0", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), 0)
    assert FewTaints().scores(candidate, table.sample(3, 0, 9)) == [0.0, 100.0]
    table.remove("n0")
    assert FewTaints().scores(candidate, table.sample(2, 0, 9)) is None
