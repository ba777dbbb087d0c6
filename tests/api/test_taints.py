"""Which devices a DeviceTaintRule means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.taints import selects, with_rules
from dray.api.types.resource import DeviceTaintRule, ResourceSlice

SLICE = msgspec.convert(
    {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d",
            "pool": {"name": "p"},
            "devices": [{"name": "a", "taints": [{"key": "old", "effect": "NoSchedule"}]}, {"name": "b"}],
        },
    },
    ResourceSlice,
)


def rule(selector: dict[str, str] | None) -> DeviceTaintRule:
    tree: dict[str, Any] = {"spec": {"taint": {"key": "new", "effect": "NoExecute"}, "deviceSelector": selector}}
    return msgspec.convert(tree, DeviceTaintRule)


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        (None, []),
        ({}, ["a", "b"]),
        ({"driver": "d"}, ["a", "b"]),
        ({"driver": "other"}, []),
        ({"driver": "d", "pool": "p"}, ["a", "b"]),
        ({"driver": "d", "pool": "other"}, []),
        ({"device": "b"}, ["b"]),
        ({"driver": "d", "pool": "p", "device": "c"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_its_selector_means(selector: dict[str, str] | None, meant: list[str]) -> None:
    tainted = with_rules(SLICE, [rule(selector)])
    assert [d.name for d in tainted.spec.devices if any(t.key == "new" for t in d.taints)] == meant
    assert [selects(rule(selector), "d", "p", d) for d in ("a", "b")] == [d in meant for d in ("a", "b")]


def test_taints_of_the_slice_stay() -> None:
    (first, _) = with_rules(SLICE, [rule({})]).spec.devices
    assert [t.key for t in first.taints] == ["old", "new"]


def test_a_slice_that_no_rule_means_is_the_same_object() -> None:
    assert with_rules(SLICE, [rule({"driver": "other"})]) is SLICE
