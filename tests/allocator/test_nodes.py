"""Node selectors as ResourceSlices use them."""

from typing import Any

import msgspec
import pytest

from dray.allocator.nodes import SelectorInvalid, reaches, selects
from dray.api.types.core import NodeSelector
from tests.allocator.building import node, slice_

NODE = node("n1", zone="a", cores="8", odd="x")


def selector(*requirements: dict[str, Any], **term: Any) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": [{"matchExpressions": list(requirements), **term}]}, NodeSelector)


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("none", "In", ["a"], False),
        ("zone", "NotIn", ["a"], False),
        ("none", "NotIn", ["a"], True),
        ("zone", "Exists", [], True),
        ("none", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("none", "DoesNotExist", [], True),
        ("cores", "Gt", ["7"], True),
        ("cores", "Gt", ["8"], False),
        ("cores", "Lt", ["9"], True),
        ("odd", "Lt", ["9"], False),
        ("none", "Gt", ["1"], False),
    ],
)
def test_operators_mean_what_they_mean_for_pods(key: str, operator: str, values: list[str], expected: bool) -> None:
    assert selects(selector({"key": key, "operator": operator, "values": values}), NODE) is expected


def test_all_requirements_of_one_term_must_hold() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    other = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    assert selects(selector(zone, matchFields=[name]), NODE)
    assert not selects(selector(zone, matchFields=[other]), NODE)


def test_an_empty_term_selects_nothing_and_one_term_is_enough() -> None:
    assert not selects(selector(), NODE)
    both = msgspec.convert(
        {"nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}, NodeSelector
    )
    assert selects(both, NODE)


@pytest.mark.parametrize("wrong", [{"key": "k", "operator": "Near"}, {"key": "k", "operator": "Gt", "values": ["x"]}])
def test_what_cannot_be_evaluated_says_which_key(wrong: dict[str, Any]) -> None:
    with pytest.raises(SelectorInvalid, match="key k"):
        selects(selector(wrong), NODE)


def test_a_slice_reaches_one_node_all_nodes_or_those_selected() -> None:
    assert reaches(slice_("s", [], nodeName="n1").spec, NODE)
    assert not reaches(slice_("s", [], nodeName="n2").spec, NODE)
    assert reaches(slice_("s", [], allNodes=True).spec, NODE)
    assert not reaches(slice_("s", [], allNodes=False).spec, NODE)
