"""Node selectors, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.paths import Path
from dray.api.types.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dray.api.validation.nodes import node_selector
from tests.api.asking import faults


def _selector(field: str, *requirement: Any) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm(**{field: (NodeSelectorRequirement(*requirement),)}),))


@pytest.mark.parametrize(
    ("field", "requirement", "expected"),
    [
        ("matchExpressions", ("a", "In", ("b",)), []),
        ("matchExpressions", ("a", "Exists"), []),
        ("matchExpressions", ("a", "Lt", ("1",)), []),
        ("matchExpressions", ("a", "Gt", ("x",)), []),
        ("matchExpressions", ("a", "Lt", ("-1",)), [("values[0]", "Invalid")]),
        ("matchExpressions", ("a", "NotIn"), [("values", "Required")]),
        ("matchExpressions", ("a", "DoesNotExist", ("b",)), [("values", "Forbidden")]),
        ("matchExpressions", ("a", "Gt", ("1", "2")), [("values", "Required")]),
        ("matchExpressions", ("a", "Exists", ("b c",)), [("values", "Forbidden"), ("values[0]", "Invalid")]),
        ("matchExpressions", ("a", "Near", ()), [("operator", "Invalid")]),
        ("matchExpressions", ("a b", "Exists"), [("key", "Invalid")]),
        ("matchExpressions", ("a", "In", ("b c",)), [("values[0]", "Invalid")]),
        ("matchFields", ("metadata.name", "In", ("n1",)), []),
        ("matchFields", ("metadata.name", "NotIn", ("n1", "n2")), [("values", "Required")]),
        ("matchFields", ("metadata.name", "Exists"), [("operator", "Invalid")]),
        ("matchFields", ("metadata.uid", "In", ("x",)), [("key", "Invalid")]),
        ("matchFields", ("metadata.name", "In", ("A",)), [("values[0]", "Invalid")]),
    ],
)
def test_conditions(field: str, requirement: tuple[Any, ...], expected: list[tuple[str, str]]) -> None:
    path = f"s.nodeSelectorTerms[0].{field}[0]."
    errors = list(node_selector(_selector(field, *requirement), Path("s")))
    assert [(field.removeprefix(path), reason) for field, reason in faults(errors)] == expected


def test_a_selector_needs_a_term() -> None:
    assert faults(list(node_selector(NodeSelector(()), Path("s")))) == [("s.nodeSelectorTerms", "Required")]
