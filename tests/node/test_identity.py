"""What a node agent writes into the status of its node."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec.structs import replace

from dray.api.types.core import NodeStatus
from dray.node.identity import NodeIdentity, refreshed

_NODE = NodeIdentity("n1", "10.0.0.1", "fake", capacity={"cpu": "4", "memory": "8Gi"})


def _status(now: float) -> NodeStatus:
    return msgspec.convert(_NODE.status_tree(now), NodeStatus)


def test_a_heartbeat_alone_is_no_news() -> None:
    before = _status(1000.0)
    assert refreshed(before, _NODE.status_tree(2000.0)) is before


def test_a_node_that_was_taken_for_dead_says_that_it_lives() -> None:
    before = _status(1000.0)
    dead = replace(before, conditions=tuple(replace(one, status="Unknown") for one in before.conditions))
    assert refreshed(dead, _NODE.status_tree(2000.0)) == _status(2000.0)


def test_resources_that_somebody_else_added_stay_and_own_ones_are_renewed() -> None:
    before = _status(1000.0)
    amounts = {**before.capacity, "cpu": "99", "left": "1", "example.com/dongle": "5"}
    found = refreshed(replace(before, capacity=amounts, allocatable=amounts), _NODE.status_tree(2000.0))
    own = cast("dict[str, str]", _NODE.status_tree(0.0)["capacity"])
    assert found.capacity == found.allocatable == {**own, "example.com/dongle": "5"}
