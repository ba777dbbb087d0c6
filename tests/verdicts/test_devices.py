"""The rule about devices: where allocations can be reached."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import NodeSelector
from dray.api.types.resource import AllocationResult
from dray.verdicts.devices import MatchingNodes, single_node
from dray.verdicts.nodes import NodeTable
from tests.scheduler.objects import node, put


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], "n"),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}], None),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}], None),
        ([], None),
    ],
)
def test_a_selector_that_names_one_node_is_recognized(terms: list[dict[str, Any]], expected: str | None) -> None:
    assert single_node(selector(*terms)) == expected


def test_the_nodes_of_a_shared_allocation_follow_the_labels() -> None:
    table = NodeTable()
    put(table, node("a", {"zone": "1"}))
    put(table, node("b", {"zone": "2"}))
    kept = MatchingNodes(table)
    one = AllocationResult(
        nodeSelector=selector({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]})
    )
    assert kept.nodes(one) == 0b01
    put(table, node("b", {"zone": "1"}))
    assert kept.nodes(one) == 0b11
    table.remove("a")
    assert kept.nodes(one) == 0b10
