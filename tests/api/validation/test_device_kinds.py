"""Device classes, taint rules and requests for the status of pools."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.resources import DRA
from dray.api.validation import Complaint
from dray.api.wire import Tree
from tests.api.asking import NOW, Asking, faults

CLASSES = Asking(DRA, "DeviceClass")
RULES = Asking(DRA, "DeviceTaintRule")
REQUESTS = Asking(DRA, "ResourcePoolStatusRequest")
CONDITION = {"type": "Complete", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": NOW}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"extendedResourceName": "example.com/gpu"}, []),
        ({"extendedResourceName": "gpu"}, [("spec.extendedResourceName", "Invalid")]),
        ({"extendedResourceName": "kubernetes.io/gpu"}, [("spec.extendedResourceName", "Invalid")]),
        ({"selectors": [{"cel": {"expression": "true"}}] * 33}, [("spec.selectors", "TooMany")]),
        ({"config": [{}]}, [("spec.config[0].opaque", "Required")]),
    ],
)
def test_classes(spec: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(CLASSES.create({"spec": spec})) == expected


def test_class_names_are_subdomains() -> None:
    assert faults(CLASSES.create({"metadata": {"name": "A_B"}})) == [("metadata.name", "Invalid")]


def test_expressions_of_a_class_are_only_checked_when_they_change() -> None:
    strict = Asking(DRA, "DeviceClass", check_selector=lambda expression: Complaint("Invalid", "never good"))
    old = CLASSES.made({"spec": {"selectors": [{"cel": {"expression": "a"}}]}})
    same = {"spec": {"selectors": [{"cel": {"expression": "a"}}]}, "metadata": {"labels": {"x": "y"}}}
    assert strict.update(old, same) == []
    assert faults(strict.update(old, {"spec": {"selectors": [{"cel": {"expression": "b"}}]}})) == [
        ("spec.selectors[0].cel.expression", "Invalid")
    ]


def _rule(taint: Tree | None = None, **selector: str) -> Tree:
    return {"spec": {"taint": {"key": "k", "effect": "None", **(taint or {})}, "deviceSelector": selector}}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (_rule(), []),
        (_rule(driver="d.example.com", pool="a/b", device="x"), []),
        (_rule({"effect": ""}), [("spec.taint.effect", "Required")]),
        (_rule({"value": "a b"}), [("spec.taint.value", "Invalid")]),
        (
            _rule(driver="", pool="", device=""),
            [
                ("spec.deviceSelector.driver", "Required"),
                ("spec.deviceSelector.pool", "Required"),
                ("spec.deviceSelector.device", "Invalid"),
            ],
        ),
        (
            {"spec": {}},
            [("spec.taint.key", "Invalid"), ("spec.taint.key", "Invalid"), ("spec.taint.effect", "Required")],
        ),
    ],
)
def test_rules(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(RULES.create(tree)) == expected


def test_an_effect_of_the_future_may_stay() -> None:
    old = RULES.made(_rule({"effect": "Later"}))
    assert RULES.update(old, _rule({"effect": "Later", "timeAdded": NOW})) == []
    assert faults(RULES.update(old, _rule({"effect": "Other"}))) == [("spec.taint.effect", "NotSupported")]


def test_rules_report_a_few_conditions() -> None:
    assert RULES.update(_rule(), {"status": {"conditions": [CONDITION]}}, "status") == []
    many = [{**CONDITION, "type": f"T{i}"} for i in range(9)]
    assert faults(RULES.update(_rule(), {"status": {"conditions": many}}, "status")) == [
        ("status.conditions", "TooMany")
    ]
    twice = [CONDITION, CONDITION]
    assert faults(RULES.update(_rule(), {"status": {"conditions": twice}}, "status")) == [
        ("status.conditions[1].type", "Duplicate")
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"driver": "d", "limit": 1000}, []),
        ({"driver": "d", "limit": 1001}, [("spec.limit", "Invalid")]),
        ({}, [("spec.driver", "Required")]),
        ({"driver": "d", "poolName": ""}, [("spec.poolName", "Invalid")]),
        ({"driver": "d", "poolName": "A"}, [("spec.poolName", "Invalid")]),
        ({"driver": "d", "defaultPartitionTypeAttribute": "x"}, [("spec.defaultPartitionTypeAttribute", "Invalid")]),
        ({"driver": "d", "ttlSecondsAfterComplete": -1}, [("spec.ttlSecondsAfterComplete", "Invalid")]),
    ],
)
def test_pool_requests(spec: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(REQUESTS.create({"spec": spec})) == expected


POOL = {"driver": "d", "poolName": "p", "generation": 1, "resourceSliceCount": 1}


PARTITIONS, SHAREABLE = "status.pools[0].partitionSummary", "status.pools[0].shareableSummary"
PARTITION = {"attribute": "x.io/type", "type": "Half", "total": 2, "allocatable": 1}
SHARED = {"fullyAvailableDevices": 1, "partiallyAvailableDevices": 0}
AMOUNTS = {"name": "memory", "total": "2", "consumed": "1", "available": "1"}


def _pool(**fields: Any) -> Tree:
    return {"poolCount": 1, "pools": [{**POOL, **fields}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"poolCount": 1, "pools": [POOL], "conditions": [CONDITION]}, []),
        ({}, [("status.poolCount", "Required")]),
        ({"poolCount": -1}, [("status.poolCount", "Invalid")]),
        (
            {"poolCount": 1, "pools": [{**POOL, "totalDevices": -1, "nodeName": "A"}]},
            [
                ("status.pools[0].nodeName", "Invalid"),
                ("status.pools[0].totalDevices", "Invalid"),
            ],
        ),
        (
            {"poolCount": 1, "pools": [{"resourceSliceCount": 0, "validationError": "x" * 257}]},
            [
                ("status.pools[0].driver", "Required"),
                ("status.pools[0].poolName", "Required"),
                ("status.pools[0].resourceSliceCount", "Invalid"),
                ("status.pools[0].validationError", "TooLong"),
            ],
        ),
        ({"poolCount": 0, "validationErrors": ["x"] * 11}, [("status.validationErrors", "TooMany")]),
        (_pool(partitionSummary=[PARTITION], shareableSummary={**SHARED, "capacity": [AMOUNTS]}), []),
        (_pool(partitionSummary=[PARTITION] * 2), [(f"{PARTITIONS}[1]", "Duplicate")]),
        (_pool(partitionSummary=[PARTITION] * 33), [(PARTITIONS, "TooMany")]),
        (_pool(partitionSummary=[{**PARTITION, "total": -1}]), [(f"{PARTITIONS}[0].total", "Invalid")]),
        (
            _pool(partitionSummary=[{}]),
            [(f"{PARTITIONS}[0].{field}", "Required") for field in ("type", "total", "allocatable", "attribute")],
        ),
        (_pool(shareableSummary={}), [(f"{SHAREABLE}.{field}", "Required") for field in SHARED]),
        (_pool(shareableSummary=dict.fromkeys(SHARED, -1)), [(f"{SHAREABLE}.{field}", "Invalid") for field in SHARED]),
        (_pool(shareableSummary={**SHARED, "capacity": [AMOUNTS] * 33}), [(f"{SHAREABLE}.capacity", "TooMany")]),
        (
            _pool(shareableSummary={**SHARED, "capacity": [{}]}),
            [(f"{SHAREABLE}.capacity[0].{field}", "Required") for field in AMOUNTS],
        ),
    ],
)
def test_answers_about_pools(status: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(REQUESTS.update({"spec": {"driver": "d"}}, {"status": status}, "status")) == expected


def test_an_answer_is_given_once() -> None:
    old = REQUESTS.changed(REQUESTS.made({"spec": {"driver": "d"}}), {"status": {"poolCount": 0}}, "status")
    assert faults(REQUESTS.update(old, {"status": {"poolCount": 1}}, "status")) == [("status", "Invalid")]
    assert faults(REQUESTS.update(old, {"spec": {"driver": "e"}})) == [("spec", "Invalid")]
