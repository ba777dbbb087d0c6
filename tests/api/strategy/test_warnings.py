"""Warnings about objects that are accepted."""

from __future__ import annotations

import pytest

from dray.api import strategy
from dray.api.resources import DRA
from tests.api.asking import Asking

_ACTIONS = ("Restart", "RestartAllContainers")


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("d.example.com", []),
        (
            "D.example.com",
            ['spec.driver: driver names should be lowercase; "D.example.com" contains uppercase characters'],
        ),
    ],
)
def test_drivers_should_be_lowercase(driver: str, expected: list[str]) -> None:
    slices = Asking(DRA, "ResourceSlice")
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    tree = {"spec": {"driver": driver, "nodeName": "n", "pool": pool}}
    assert slices.create(tree) == []
    assert strategy.warnings(slices.resource, slices.made(tree)) == expected


def test_handlers_of_runtime_classes_have_no_effect() -> None:
    classes = Asking("node.k8s.io", "RuntimeClass")
    found = strategy.warnings(classes.resource, classes.made({"handler": "runsc"}))
    assert found == ['handler: "runsc" is stored, but no part of dray acts on it']


def test_restarting_all_containers_has_no_effect() -> None:
    pods = Asking("", "Pod")
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [1]}} for action in _ACTIONS]
    container = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    tree = {"spec": {"containers": [container]}}
    assert pods.create(tree) == []
    text = 'spec.containers[0].restartPolicyRules[1].action: "RestartAllContainers" is stored, but no part of dray acts on it'
    assert strategy.warnings(pods.resource, pods.made(tree)) == [text]
