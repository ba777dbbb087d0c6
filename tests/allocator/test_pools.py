"""Which slices make a pool, and whether its devices may be used."""

from typing import Any

import pytest

from dray.allocator import Allocated, AllocationOutcome, Failed, Features, Unallocatable, allocate
from dray.allocator.content import content_of
from dray.allocator.layout import Layout, NodeView
from dray.allocator.pools import reaches, view
from dray.api.pools import by_pool
from dray.api.reasons.devices import InputCode, InputProblem, PoolState
from dray.api.types.resource import ResourceSlice
from tests.allocator.building import ANY, claim, counters, device, drawing, node, request, slice_


def seen(*slices: ResourceSlice) -> NodeView:
    return view(node("n"), by_pool(slices), content_of, Layout, Features())


def states(*slices: ResourceSlice) -> list[PoolState]:
    return [pool.state for pool in seen(*slices).layout.pools]


def ask(*slices: ResourceSlice, count: int | None = 1) -> AllocationOutcome:
    return allocate(node("n"), [claim("a", request("r", count))], [ANY], slices)


def test_pools_come_by_driver_and_name_slices_by_name_devices_by_place() -> None:
    found = seen(
        slice_("z", [device("d1"), device("d0")], pool="p2"),
        slice_("b", [device("x")], pool="p1", count=2),
        slice_("a", [device("y")], pool="p1", count=2),
        slice_("c", [device("w")], pool="p9", driver="a.example.com"),
    )
    assert [str(each) for each in found.devices] == [
        "a.example.com/p9/w",
        "gpu.example.com/p1/y",
        "gpu.example.com/p1/x",
        "gpu.example.com/p2/d1",
        "gpu.example.com/p2/d0",
    ]
    assert found.places[found.devices[3]] == 3
    assert found.slice_of(2).metadata.name == "b"


def test_only_the_newest_generation_counts() -> None:
    found = seen(slice_("old", [device("o")], generation=1), slice_("new", [device("n")], generation=2))
    assert [each.device for each in found.devices] == ["n"]


def test_a_pool_with_a_slice_missing_offers_nothing() -> None:
    part = slice_("s", [device("d")], count=2)
    assert states(part) == [PoolState.INCOMPLETE]
    assert isinstance(ask(part), Unallocatable)


def test_slices_for_other_nodes_complete_a_pool() -> None:
    elsewhere = slice_("t", [device("e")], count=2, nodeName="other")
    found = seen(slice_("s", [device("d")], count=2), elsewhere)
    assert [each.device for each in found.devices] == ["d"]


def test_a_pool_that_is_replaced_elsewhere_is_ignored() -> None:
    newer = slice_("t", [device("e")], count=2, nodeName="other", generation=2)
    assert states(slice_("s", [device("d")], count=2, generation=1), newer) == []


def test_a_name_used_twice_makes_a_pool_invalid() -> None:
    part = slice_("s", [device("d"), device("d")])
    assert states(part) == [PoolState.INVALID]
    assert ask(part) == Failed(InputProblem(InputCode.INVALID_POOLS, node_only=True))
    assert isinstance(ask(part, slice_("t", [device("e")], pool="q")), Allocated)


@pytest.mark.parametrize(
    ("doubtful", "code"),
    [
        (slice_("s", [device("d")], count=2), InputCode.POOL_INCOMPLETE),
        (slice_("s", [device("d"), device("d")]), InputCode.POOL_INVALID),
    ],
)
def test_all_devices_cannot_be_had_while_a_pool_is_in_doubt(doubtful: ResourceSlice, code: InputCode) -> None:
    outcome = ask(doubtful, slice_("t", [device("e")], pool="a"), count=None)
    assert outcome == Failed(InputProblem(code, "ns/a", "r", pool="gpu.example.com/p", node_only=True))


def test_devices_may_choose_their_nodes_one_by_one() -> None:
    devices: list[dict[str, Any]] = [
        device("there") | {"nodeName": "other"},
        device("here") | {"nodeName": "n"},
        device("everywhere") | {"allNodes": True},
    ]
    outcome = ask(slice_("s", devices, perDeviceNodeSelection=True), count=None)
    assert isinstance(outcome, Allocated)
    assert [each.device for each in outcome.devices[0]] == ["here", "everywhere"]
    assert outcome.results[0]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n"]


def test_a_counter_that_nobody_publishes_makes_a_pool_invalid() -> None:
    part = slice_("s", [device("c") | drawing("s", memory=1), device("d")])
    assert states(part) == [PoolState.INVALID]
    assert states(counters("a", s={"other": 1}), slice_("s", [device("c") | drawing("s", memory=1)], count=2)) == [
        PoolState.INVALID
    ]


def test_a_counter_set_that_stands_twice_makes_a_pool_invalid() -> None:
    slices = [counters(name, count=3, s={"memory": 1}) for name in "ab"]
    assert states(*slices, slice_("c", [device("d")], count=3)) == [PoolState.INVALID]


def test_a_slice_reaches_one_node_all_nodes_or_those_selected() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    here = node("n", zone="a")
    assert reaches(slice_("s", [], nodeName="n").spec, here)
    assert not reaches(slice_("s", [], nodeName="other").spec, here)
    assert reaches(slice_("s", [], allNodes=True).spec, here)
    assert reaches(slice_("s", [], nodeSelector=zone).spec, here)
    assert not reaches(slice_("s", [], nodeSelector=zone).spec, node("n", zone="b"))
    assert not reaches(slice_("s", [], allNodes=False).spec, here)
