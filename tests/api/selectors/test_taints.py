"""Tolerations of pods and of device requests."""

from __future__ import annotations

import pytest

from dray.api.selectors import tolerates, tolerates_device, untolerated
from dray.api.types.core import Taint, Toleration
from dray.api.types.resource import DeviceTaint, DeviceToleration


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({}, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "operator": "Is", "value": "v"}, False),
    ],
)
def test_pods_and_devices_tolerate_alike(toleration: dict[str, str], covers: bool) -> None:
    assert tolerates(Toleration(**toleration), Taint(key="k", value="v", effect="NoSchedule")) is covers
    device = DeviceTaint(key="k", value="v", effect="NoSchedule")
    assert tolerates_device(DeviceToleration(**toleration), device) is covers


@pytest.mark.parametrize(
    ("operator", "taint", "covers"), [("Gt", "6", True), ("Gt", "5", False), ("Lt", "4", True), ("Lt", "x", False)]
)
def test_numbers_can_be_compared(operator: str, taint: str, covers: bool) -> None:
    assert tolerates(Toleration(key="k", operator=operator, value="5"), Taint(key="k", value=taint)) is covers


def test_only_effects_that_matter_are_reported() -> None:
    taints = (
        Taint(key="a", effect="NoSchedule"),
        Taint(key="b", effect="PreferNoSchedule"),
        Taint(key="c", effect="NoExecute"),
    )
    tolerations = (Toleration(key="c", operator="Exists"),)
    assert [taint.key for taint in untolerated(taints, tolerations)] == ["a"]
    assert [taint.key for taint in untolerated(taints, (), ("PreferNoSchedule",))] == ["b"]
