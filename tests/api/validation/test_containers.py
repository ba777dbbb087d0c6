"""Probes, security contexts, mounts and references of containers: what Kubernetes refuses, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.wire import Tree
from tests.api.asking import Asking

PODS = Asking("", "Pod")
VOLUME = {"name": "v", "emptyDir": {}}


def said(spec: Tree, **container: Any) -> list[str]:
    tree = {"spec": {"containers": [{"name": "c", "image": "app", **container}], "volumes": [VOLUME], **spec}}
    return [str(error).removeprefix("spec.").removeprefix("containers[0].") for error in PODS.create(tree)]


def http(**fields: Any) -> Tree:
    return {"httpGet": {"port": 80, **fields}}


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"readinessProbe": {**http(), "terminationGracePeriodSeconds": 5}}, "must not be set for readinessProbes"),
        ({"livenessProbe": {**http(), "terminationGracePeriodSeconds": 0}}, "must be greater than 0"),
        (
            {"livenessProbe": {**http(), "successThreshold": 2}},
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        ({"livenessProbe": http(scheme="FTP")}, 'Unsupported value: "FTP": supported values: "HTTP", "HTTPS"'),
        ({"livenessProbe": http(httpHeaders=[{"name": "a b", "value": ""}])}, "a valid HTTP header must consist of"),
        (
            {"livenessProbe": {"grpc": {"port": 0}}},
            "livenessProbe.grpc.port: Invalid value: 0: must be between 1 and 65535",
        ),
        ({"livenessProbe": {"tcpSocket": {"port": 70000}}}, "must be between 1 and 65535, inclusive"),
        ({"securityContext": {"runAsUser": -1}}, "must be between 0 and 2147483647, inclusive"),
        ({"securityContext": {"procMount": "x"}}, 'supported values: "Default", "Unmasked"'),
        (
            {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]},
            "Bidirectional mount propagation is available only to privileged containers",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "x"}]},
            'supported values: "Bidirectional", ',
        ),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "/x"}]}, "must be a relative path"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "a/../b"}]}, "must not contain '..'"),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
            'env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name"',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]},
            "error converting fieldPath: field label not supported: spec.nope",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
            'Unsupported value: "limits.gpu"',
        ),
    ],
)
def test_bad_containers(container: dict[str, Any], text: str) -> None:
    [found] = said({}, **container)
    assert text in found


IN_42 = {"operator": "In", "values": [42]}
NO_POLICY = "restartPolicy: Required value: must specify restartPolicy when restart rules are used"


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("container", "text"),
    [
        (
            {"restartPolicy": "Sometimes"},
            'restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
        ),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": IN_42}]}, NO_POLICY),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": IN_42}] * 21},
            "restartPolicyRules: Too many: 21: must have at most 20 items",
        ),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Stop", "exitCodes": IN_42}]},
            'restartPolicyRules[0].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"',
        ),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]},
            "restartPolicyRules[0].exitCodes: Required value: must be specified",
        ),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"values": [1]}}]},
            'restartPolicyRules[0].exitCodes.operator: Unsupported value: "": supported values: "In", "NotIn"',
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [*range(256)]}}],
            },
            "restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items",
        ),
    ],
)
def test_bad_restart_rules(kind: str, container: dict[str, Any], text: str) -> None:
    fine = {"name": "fine", "image": "app"}
    tree = {"spec": {"containers": [fine], kind: [{"name": "c", "image": "app", **container}]}}
    assert [str(error) for error in PODS.create(tree)] == [f"spec.{kind}[0].{text}"]


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"fsGroup": -1}, "securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
        ({"supplementalGroups": [1, -2]}, "securityContext.supplementalGroups[1]: "),
        ({"fsGroupChangePolicy": "x"}, 'supported values: "Always", "OnRootMismatch"'),
        ({"supplementalGroupsPolicy": "x"}, 'supported values: "Merge", "Strict"'),
    ],
)
def test_bad_contexts_of_pods(context: dict[str, Any], text: str) -> None:
    [found] = said({"securityContext": context})
    assert text in found


@pytest.mark.parametrize(
    "container",
    [
        {"livenessProbe": {"grpc": {"port": 50051}}, "startupProbe": http(path="/healthz", scheme="HTTPS")},
        {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}, "runAsUser": 0, "runAsGroup": 5}},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}}]},
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [
                {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [*range(255)]}},
                *[{"action": "RestartAllContainers", "exitCodes": IN_42}] * 19,
            ],
        },
        {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": {"exec": {"command": ["x"]}}}},
    ],
)
def test_good_containers(container: dict[str, Any]) -> None:
    assert said({}, **container) == []
