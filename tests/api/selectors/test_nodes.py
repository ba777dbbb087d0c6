"""Node selectors: one term must hold, and all of its conditions."""

from __future__ import annotations

import pytest

from dray.api.selectors import node_selector_matches, term_matches
from dray.api.types.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

LABELS = {"zone": "a", "cores": "16"}


def _term(*expressions: tuple[str, str, tuple[str, ...]], name: str = "") -> NodeSelectorTerm:
    fields = (NodeSelectorRequirement("metadata.name", "In", (name,)),) if name else ()
    return NodeSelectorTerm(tuple(NodeSelectorRequirement(*item) for item in expressions), fields)


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (_term(("zone", "In", ("a", "b"))), True),
        (_term(("zone", "NotIn", ("a",))), False),
        (_term(("rack", "NotIn", ("a",))), True),
        (_term(("zone", "Exists", ())), True),
        (_term(("rack", "DoesNotExist", ())), True),
        (_term(("cores", "Gt", ("8",))), True),
        (_term(("cores", "Lt", ("8",))), False),
        (_term(("zone", "Gt", ("8",))), False),
        (_term(("cores", "Gt", ("1", "2"))), False),
        (_term(("zone", "Maybe", ("a",))), False),
        (_term(("zone", "In", ("a",)), ("cores", "In", ("8",))), False),
        (_term(name="n1"), True),
        (_term(name="n2"), False),
        (_term(), False),
    ],
)
def test_terms(term: NodeSelectorTerm, matches: bool) -> None:
    assert term_matches(term, LABELS, "n1") is matches


def test_one_term_is_enough_and_none_is_not() -> None:
    wrong, right = _term(name="n2"), _term(name="n1")
    assert node_selector_matches(NodeSelector((wrong, right)), LABELS, "n1")
    assert not node_selector_matches(NodeSelector((wrong,)), LABELS, "n1")
    assert not node_selector_matches(NodeSelector(()), LABELS, "n1")
