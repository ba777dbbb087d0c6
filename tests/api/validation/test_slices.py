"""Slices: what a driver may publish."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.resources import DRA
from dray.api.wire import Tree
from tests.api.asking import Asking, faults

SLICES = Asking(DRA, "ResourceSlice")


def _slice(*devices: Tree, **fields: Any) -> Tree:
    spec = {
        "driver": "d.example.com",
        "nodeName": "n1",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        **({"devices": list(devices)} if devices else {}),
        **fields,
    }
    return {"spec": {name: value for name, value in spec.items() if value is not None}}


def _device(**fields: Any) -> Tree:
    return {"name": "d", **fields}


def _policy(value: str = "10", **policy: Any) -> Tree:
    return _device(allowMultipleAllocations=True, capacity={"m": {"value": value, "requestPolicy": policy}})


COUNTERS = {"counterSet": "c", "counters": {"m": {"value": "1"}}}
TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}


@pytest.mark.parametrize(
    "tree",
    [
        _slice(),
        _slice(_device(attributes={"a": {"int": 1}, "x.io/b": {"version": "1.2.3"}}, capacity={"m": {"value": "1"}})),
        _slice(nodeName=None, allNodes=True),
        _slice(nodeName=None, nodeSelector=TERM),
        _slice(_device(nodeName="n1"), nodeName=None, perDeviceNodeSelection=True),
        _slice(sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}]),
        _slice(_device(consumesCounters=[COUNTERS])),
        _slice(*[{"name": f"d{i}"} for i in range(128)]),
        _slice(_device(bindingConditions=["a"], bindingFailureConditions=["b"])),
        _slice(_policy(default="2", validValues=["1", "2"])),
        _slice(_policy(default="3", validRange={"min": "1", "max": "9", "step": "2"})),
        _slice(_device(nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": "2"}}})),
        _slice(skipNodeOperations=["*"]),
        _slice(
            _device(consumesCounters=[COUNTERS], attributes={"type": {"string": "half"}}),
            partitionTypeAttribute="d.example.com/type",
        ),
    ],
)
def test_good_slices(tree: Tree) -> None:
    assert SLICES.create(tree) == []


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (_slice(driver=""), [("spec.driver", "Required")]),
        (_slice(nodeName=None), [("spec", "Required")]),
        (_slice(nodeName=""), [("spec.nodeName", "Invalid"), ("spec", "Required")]),
        (_slice(nodeName="A"), [("spec.nodeName", "Invalid")]),
        (_slice(perDeviceNodeSelection=True), [("spec", "Invalid")]),
        (_slice(pool={"name": "p", "resourceSliceCount": 0}), [("spec.pool.resourceSliceCount", "Invalid")]),
        (
            _slice(pool={"name": "x" * 254, "resourceSliceCount": 1}),
            [("spec.pool.name", "TooLong"), ("spec.pool.name", "Invalid")],
        ),
        (_slice(_device(), _device()), [("spec.devices[1]", "Duplicate")]),
        (_slice(_device(), sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}]), [("spec", "Invalid")]),
        (_slice(_device(attributes={"a": {"int": 1, "bool": True}})), [("spec.devices[0].attributes[a]", "Invalid")]),
        (_slice(_device(attributes={"a/b/c": {"int": 1}})), [("spec.devices[0].attributes", "Invalid")]),
        (_slice(_device(attributes={"/b": {"int": 1}})), [("spec.devices[0].attributes", "Invalid")]),
        (_slice(_device(attributes={"x.io/": {"int": 1}})), [("spec.devices[0].attributes", "Invalid")]),
        (
            _slice(_device(attributes={"a": {"strings": ["x" * 65]}})),
            [("spec.devices[0].attributes[a].strings[0]", "TooLong")],
        ),
        (
            _slice(_device(attributes={"a": {"versions": ["1"]}})),
            [("spec.devices[0].attributes[a].versions[0]", "Invalid")],
        ),
        (_slice(_device(attributes={"a": {"ints": list(range(49))}})), [("spec.devices[0]", "Invalid")]),
        (_slice(_device(capacity={"1a": {"value": "1"}})), [("spec.devices[0].capacity", "Invalid")]),
        (_slice(_device(nodeName="n1")), [("spec.devices[0]", "Invalid")]),
        (_slice(_device(), nodeName=None, perDeviceNodeSelection=True), [("spec.devices[0]", "Required")]),
        (
            _slice(_device(nodeName="n", allNodes=True), nodeName=None, perDeviceNodeSelection=True),
            [("spec.devices[0]", "Invalid")],
        ),
        (
            _slice(_device(nodeName="", allNodes=False), nodeName=None, perDeviceNodeSelection=True),
            [
                ("spec.devices[0].nodeName", "Invalid"),
                ("spec.devices[0].allNodes", "Invalid"),
                ("spec.devices[0]", "Required"),
            ],
        ),
        (_slice(_device(taints=[{"key": "k"}])), [("spec.devices[0].taints[0].effect", "Required")]),
        (_slice(_device(taints=[{"key": "k", "effect": "None"}] * 17)), [("spec.devices[0].taints", "TooMany")]),
        (
            _slice(*[{"name": f"d{i}", "taints": [{"key": "k", "effect": "None"}]} for i in range(65)]),
            [("spec.devices", "TooMany")],
        ),
        (
            _slice(_device(consumesCounters=[COUNTERS, COUNTERS])),
            [("spec.devices[0].consumesCounters[1]", "Duplicate")],
        ),
        (
            _slice(_device(consumesCounters=[{"counters": {}}])),
            [
                ("spec.devices[0].consumesCounters[0].counterSet", "Required"),
                ("spec.devices[0].consumesCounters[0].counters", "Required"),
            ],
        ),
        (_slice(_device(consumesCounters=[COUNTERS] * 3)), [("spec.devices[0].consumesCounters", "TooMany")]),
        (
            _slice(sharedCounters=[{"name": "C", "counters": {"M": {"value": "1"}}}]),
            [
                ("spec.sharedCounters[0].name", "Invalid"),
                ("spec.sharedCounters[0].counters", "Invalid"),
            ],
        ),
        (
            _slice(_device(bindingConditions=["a", "a"], bindingFailureConditions=["a"])),
            [
                ("spec.devices[0].bindingConditions[1]", "Duplicate"),
                ("spec.devices[0].bindingFailureConditions[0]", "Invalid"),
            ],
        ),
        (
            _slice(_device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}})),
            [("spec.devices[0].capacity[m].requestPolicy", "Forbidden")],
        ),
        (_slice(_policy(validValues=["1"])), [("spec.devices[0].capacity[m].requestPolicy.default", "Required")]),
        (
            _slice(_policy(default="5", validValues=["2", "1", "11"])),
            [
                ("spec.devices[0].capacity[m].requestPolicy.validValues[1]", "Invalid"),
                ("spec.devices[0].capacity[m].requestPolicy.validValues[2]", "Invalid"),
                ("spec.devices[0].capacity[m].requestPolicy.validValues", "Invalid"),
            ],
        ),
        (
            _slice(_policy(default="4", validRange={"min": "1", "max": "11", "step": "2"})),
            [
                ("spec.devices[0].capacity[m].requestPolicy.validRange.max", "Invalid"),
                ("spec.devices[0].capacity[m].requestPolicy.validRange.step", "Invalid"),
            ],
        ),
        (
            _slice(_policy(default="1", validRange={})),
            [("spec.devices[0].capacity[m].requestPolicy.validRange.min", "Required")],
        ),
        (
            _slice(_policy(default="1", validRange={"min": "1"}, validValues=["1"])),
            [("spec.devices[0].capacity[m].requestPolicy", "Forbidden")],
        ),
        (
            _slice(_device(nodeAllocatableResources={"gpus": {}})),
            [
                ("spec.devices[0].nodeAllocatableResources[gpus]", "Invalid"),
                ("spec.devices[0].nodeAllocatableResources[gpus]", "Required"),
            ],
        ),
        (
            _slice(_device(nodeAllocatableResources={"cpu": {"mapping": {"capacityKey": "m"}}})),
            [
                ("spec.devices[0].nodeAllocatableResources[cpu].mapping.capacityKey", "NotFound"),
                ("spec.devices[0].nodeAllocatableResources[cpu].mapping.capacityMultiplier", "Required"),
            ],
        ),
        (_slice(skipNodeOperations=["NodePrepareResources"]), [("spec.skipNodeOperations", "Invalid")]),
        (_slice(skipNodeOperations=["X"]), [("spec.skipNodeOperations[0]", "NotSupported")]),
        (_slice(_device(), partitionTypeAttribute="x.io/t"), [("spec.partitionTypeAttribute", "Invalid")]),
        (
            _slice(_device(consumesCounters=[COUNTERS]), partitionTypeAttribute="x.io/t"),
            [("spec.devices[0].attributes[x.io/t]", "Required")],
        ),
    ],
)
def test_bad_slices(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(SLICES.create(tree)) == expected


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"driver": "other.example.com"}, "spec.driver"),
        ({"nodeName": "n2"}, "spec.nodeName"),
        ({"pool": {"name": "q", "generation": 2, "resourceSliceCount": 1}}, "spec.pool.name"),
    ],
)
def test_a_slice_stays_where_it_is(change: Tree, path: str) -> None:
    assert faults(SLICES.update(_slice(), _slice(**change))) == [(path, "Invalid")]


def test_devices_that_have_not_changed_are_not_judged_again() -> None:
    old = SLICES.made(_slice(_device(capacity={"1a": {"value": "1"}})))
    assert SLICES.update(old, _slice(_device(capacity={"1a": {"value": "1"}}))) == []
    assert SLICES.update(old, _slice(_device(capacity={"1a": {"value": "2"}}))) != []


def test_long_keys_are_shown_in_part() -> None:
    key = "x.io/" + "y" * 200
    errors = SLICES.create(_slice(_device(attributes={key: {"version": "1"}})))
    assert errors[-1].field.startswith("spec.devices[0].attributes[x.io/yyy")
    assert "..." in errors[-1].field


@pytest.mark.parametrize(
    ("basic", "field"),
    [
        ({"attributes": {"a": {}}}, "basic.attributes[a]"),
        ({"consumesCounters": [{**COUNTERS, "counterSet": ""}]}, "basic.consumesCounters[0].counterSet"),
        ({"taints": [{"key": "k", "effect": "Some"}]}, "basic.taints[0].effect"),
        ({"taints": [{"key": "a b", "effect": "None"}]}, "taints[0].key"),
        ({"attributes": {"a": {"version": "1"}}}, "attributes[a].version"),
    ],
)
def test_refusals_in_v1beta1_name_some_fields_as_that_version_does(basic: Tree, field: str) -> None:
    [error] = Asking(DRA, "ResourceSlice", "v1beta1").create(_slice({"name": "d", "basic": basic}))
    assert error.field == f"spec.devices[0].{field}"
