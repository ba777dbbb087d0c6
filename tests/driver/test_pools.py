"""Pools become slices within the limits of the API."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.kinds.resource_slice import ADVANCED_DEVICES_MAX, COUNTER_SETS_MAX, DEVICES_MAX
from dray.driver import Pool, Version, device
from dray.driver.pools import SLICE_BYTES_MAX, Tree, attribute, specs

TAINT = {"key": "k", "effect": "NoSchedule"}


def made(pool: Pool) -> list[Tree]:
    return specs("d.example.com", "n", "p", pool)


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        (True, {"bool": True}),
        (3, {"int": 3}),
        ("a", {"string": "a"}),
        (Version("1.2.3"), {"version": "1.2.3"}),
        ([1, 2], {"ints": [1, 2]}),
        ((False,), {"bools": [False]}),
        (["a"], {"strings": ["a"]}),
        ([Version("1.0.0")], {"versions": ["1.0.0"]}),
    ],
)
def test_an_attribute_has_the_type_of_its_value(value: object, tree: Tree) -> None:
    assert attribute(value) == tree  # type: ignore[arg-type]  # the point of the test
    assert msgspec.json.decode(msgspec.json.encode(attribute(value))) == tree  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1.5, None, [], [1, "a"], [[1]]])
def test_other_values_are_refused_by_name(value: object) -> None:
    with pytest.raises(TypeError, match="attribute"):
        attribute(value)  # type: ignore[arg-type]  # the point of the test


def test_a_device_takes_further_fields_of_the_api() -> None:
    assert device("d", {"a": 1}, {"memory": "1Gi", "cores": {"value": "2"}}, taints=[TAINT]) == {
        "name": "d",
        "attributes": {"a": {"int": 1}},
        "capacity": {"memory": {"value": "1Gi"}, "cores": {"value": "2"}},
        "taints": [TAINT],
    }


def test_an_empty_pool_is_one_empty_slice() -> None:
    [spec] = made(Pool())
    assert spec["devices"] == []
    assert spec["pool"] == {"name": "p", "resourceSliceCount": 1}


@pytest.mark.parametrize(
    ("pool", "place"),
    [
        (Pool(), {"nodeName": "n"}),
        (Pool(all_nodes=True), {"allNodes": True}),
        (Pool(node_selector={"nodeSelectorTerms": []}), {"nodeSelector": {"nodeSelectorTerms": []}}),
        (Pool(per_device_nodes=True), {"perDeviceNodeSelection": True}),
    ],
)
def test_a_pool_says_where_it_is_in_exactly_one_way(pool: Pool, place: Tree) -> None:
    [spec] = made(pool)
    fields = ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection")
    assert {key: spec[key] for key in fields if key in spec} == place
    assert pool.is_local == ("nodeName" in place)


def test_counter_sets_have_slices_of_their_own() -> None:
    counters = [{"name": f"c{n}", "counters": {}} for n in range(COUNTER_SETS_MAX + 1)]
    parts = made(Pool([device("d")], shared_counters=counters))
    assert [len(part.get("sharedCounters", ())) for part in parts] == [COUNTER_SETS_MAX, 1, 0]
    assert {part["pool"]["resourceSliceCount"] for part in parts} == {3}


kinds = st.sampled_from(["plain", "taint", "counter", "list"])


def of_kind(number: int, kind: str) -> Tree:
    name = f"d{number}"
    match kind:
        case "taint":
            return device(name, taints=[TAINT])
        case "counter":
            return device(name, consumesCounters=[{"counterSet": "c", "counters": {}}])
        case "list":
            return device(name, {"a": [1, 2]})
    return device(name)


@given(st.lists(st.tuples(kinds, st.integers(1, 90)), max_size=6))
def test_slices_keep_the_order_and_stay_within_the_limits(runs: list[tuple[str, int]]) -> None:
    kinds = [kind for kind, count in runs for _ in range(count)]
    devices = [of_kind(number, kind) for number, kind in enumerate(kinds)]
    parts = made(Pool(devices))
    assert [one for part in parts for one in part["devices"]] == devices
    assert {part["pool"]["resourceSliceCount"] for part in parts} == {len(parts)}
    for part in parts:
        advanced = any(one.keys() - {"name"} for one in part["devices"])
        assert len(part["devices"]) <= (ADVANCED_DEVICES_MAX if advanced else DEVICES_MAX)
    if not any(kind != "plain" for kind in kinds):
        assert len(parts) == max(1, -(-len(devices) // DEVICES_MAX)), "no more slices than needed"


def test_large_devices_are_spread_by_size() -> None:
    terms = [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["x" * 63] * 400}]}]
    devices = [device(f"d{n}", nodeSelector={"nodeSelectorTerms": terms}) for n in range(100)]
    parts = made(Pool(devices, per_device_nodes=True))
    assert len(parts) > 1
    assert all(len(msgspec.json.encode(part["devices"])) <= SLICE_BYTES_MAX + 2 for part in parts)
