"""Warnings about objects that are accepted."""

from __future__ import annotations

import pytest

from dray.api import strategy
from dray.api.resources import DRA
from dray.api.wire import Tree
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


def test_bytes_are_whole_in_pods_claims_and_volumes() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3m"}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    limits = {"limits": {"memory": "1500m", "cpu": "1500m"}}
    pod = {"spec": {"containers": [{"name": "c", "image": "i", "resources": limits}], "volumes": [volume]}}
    disk = {"capacity": {"storage": "3m"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    assert _warnings("Pod", pod) == [
        _fraction("spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]", "3m"),
        _fraction("spec.containers[0].resources.limits[memory]", "1500m"),
        _fraction("spec.containers[0].resources.requests[memory]", "1500m"),
    ]
    assert _warnings("PersistentVolumeClaim", {"spec": claim}) == [_fraction("spec.resources.requests[storage]", "3m")]
    assert _warnings("PersistentVolume", {"spec": disk}) == [_fraction("spec.capacity[storage]", "3m")]


@pytest.mark.parametrize(("second", "hides"), [("b", True), ("$(A)", True), ("$(A)b", False)])
def test_a_variable_may_extend_the_one_before_it(second: str, hides: bool) -> None:
    env = [{"name": "A", "value": "a"}, {"name": "A", "value": second}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    found = _warnings("Deployment", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}, "apps")
    text = 'spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    assert found == ([text] if hides else [])


def test_an_unchanged_template_is_not_warned_about_again() -> None:
    kind = Asking("apps", "ReplicaSet")
    amounts = {"limits": {"memory": "3m"}}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": amounts}]},
    }
    made = kind.made({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
    assert len(strategy.warnings(kind.resource, made)) == 1
    assert strategy.warnings(kind.resource, made, made) == []


def _warnings(kind: str, tree: Tree, group: str = "") -> list[str]:
    asking = Asking(group, kind)
    assert asking.create(tree) == []
    return strategy.warnings(asking.resource, asking.made(tree))


def _fraction(path: str, amount: str) -> str:
    return f'{path}: fractional byte value "{amount}" is invalid, must be an integer'
