"""The rule about devices: where allocations can be reached."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.core import NodeSelector
from dray.api.types.resource import AllocationResult
from dray.verdicts.devices import MatchingNodes
from dray.verdicts.nodes import NodeTable
from tests.scheduler.objects import node, put


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


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
