"""Defaults: what Kubernetes adds to what an author wrote."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.podspecs import pull_policy
from dray.api.resources import RESOURCES
from tests.api.asking import NOW, Asking


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1.2", "IfNotPresent"),
        ("host:5000/app", "Always"),
        ("host:5000/app:v1", "IfNotPresent"),
        ("app@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_that_may_change_are_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_pod_is_filled_in() -> None:
    container = {
        "name": "c",
        "image": "app:1",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "hostNetwork": True,
        "serviceAccountName": "sa",
        "volumes": [
            {"name": "v"},
            {"name": "s", "secret": {"secretName": "x"}},
            {"name": "h", "hostPath": {"path": "/"}},
        ],
    }
    spec = Asking("", "Pod").defaulted({"spec": spec})["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["terminationGracePeriodSeconds"], spec["securityContext"], spec["enableServiceLinks"]) == (
        30,
        {},
        True,
    )
    assert spec["serviceAccount"] == "sa"
    filled = spec["containers"][0]
    assert (filled["imagePullPolicy"], filled["terminationMessagePath"]) == ("IfNotPresent", "/dev/termination-log")
    assert filled["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert filled["livenessProbe"]["failureThreshold"] == 3
    assert filled["livenessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}
    assert filled["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"
    assert filled["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert filled["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert spec["volumes"][0] == {"name": "v", "emptyDir": {}}
    assert spec["volumes"][1]["secret"]["defaultMode"] == 420
    assert spec["volumes"][2]["hostPath"] == {"path": "/", "type": ""}


def test_only_pods_ask_for_what_they_limit() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}
    tree = Asking("apps", "Deployment").defaulted({"spec": {"template": template}})
    assert "requests" not in tree["spec"]["template"]["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("group", "kind", "spec", "expected"),
    [
        (
            "apps",
            "Deployment",
            {},
            {
                "replicas": 1,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            },
        ),
        ("apps", "Deployment", {"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Recreate"}}),
        ("apps", "ReplicaSet", {}, {"replicas": 1}),
        (
            "apps",
            "DaemonSet",
            {},
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        ),
        (
            "batch",
            "Job",
            {},
            {
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        ("batch", "Job", {"parallelism": 3}, {"parallelism": 3}),
        ("batch", "Job", {"backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}),
        (
            "",
            "Service",
            {"ports": [{"port": 80}], "type": "LoadBalancer"},
            {
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": True,
            },
        ),
        ("resource.k8s.io", "ResourcePoolStatusRequest", {"driver": "d"}, {"limit": 100}),
        ("scheduling.k8s.io", "PodGroup", {}, {"disruptionMode": {"single": {}}}),
    ],
)
def test_specs_are_filled_in(group: str, kind: str, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    filled = Asking(group, kind).defaulted({"spec": spec})["spec"]
    assert {name: filled.get(name) for name in expected} == expected


def test_a_parallel_job_has_no_number_of_completions() -> None:
    assert "completions" not in Asking("batch", "Job").defaulted({"spec": {"parallelism": 3}})["spec"]


def test_requests_ask_for_one_device() -> None:
    requests = [
        {"name": "a", "exactly": {"tolerations": [{"key": "k"}]}},
        {"name": "b", "firstAvailable": [{"name": "x", "allocationMode": "All"}, {"name": "y", "count": 2}]},
    ]
    asking = Asking("resource.k8s.io", "ResourceClaim")
    exact, listed = asking.defaulted({"spec": {"devices": {"requests": requests}}})["spec"]["devices"]["requests"]
    assert exact["exactly"] == {
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}],
    }
    assert listed["firstAvailable"] == [
        {"name": "x", "allocationMode": "All"},
        {"name": "y", "allocationMode": "ExactCount", "count": 2},
    ]


def test_taints_know_since_when() -> None:
    slices = Asking("resource.k8s.io", "ResourceSlice")
    device = {"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}], "capacity": {"m": {}}}
    filled = slices.defaulted({"spec": {"devices": [device]}})["spec"]["devices"][0]
    assert filled["taints"][0]["timeAdded"] == NOW
    assert filled["capacity"] == {"m": {"value": "0"}}
    rule = Asking("resource.k8s.io", "DeviceTaintRule").defaulted({"spec": {"taint": {"key": "k"}}})
    assert rule["spec"]["taint"]["timeAdded"] == NOW


def test_text_of_secrets_becomes_data() -> None:
    secret = Asking("", "Secret").defaulted({"stringData": {"a": "b"}, "data": {"c": "ZA=="}})
    assert (secret["type"], secret["data"]) == ("Opaque", {"a": "Yg==", "c": "ZA=="})
    assert "stringData" not in secret


def test_subjects_and_roles_get_their_group() -> None:
    subjects = [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
    group = "rbac.authorization.k8s.io"
    tree = Asking(group, "RoleBinding").defaulted({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects})
    assert tree["roleRef"]["apiGroup"] == group
    assert [subject.get("apiGroup") for subject in tree["subjects"]] == [group, None]


def test_webhooks_fail_closed() -> None:
    group = "admissionregistration.k8s.io"
    webhook = {"name": "w", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{}]}
    filled = Asking(group, "ValidatingWebhookConfiguration").defaulted({"webhooks": [webhook]})["webhooks"][0]
    assert (filled["failurePolicy"], filled["matchPolicy"], filled["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert filled["clientConfig"]["service"]["port"] == 443
    assert filled["rules"] == [{"scope": "*"}]


def test_namespaces_carry_their_name() -> None:
    labels = Asking("", "Namespace").defaulted({"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"]
    assert labels == {"a": "b", "kubernetes.io/metadata.name": "x"}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: f"{resource.group}/{resource.kind}")
def test_an_empty_object_can_be_defaulted_and_read(resource: Any) -> None:
    asking = Asking(resource.group, resource.kind)
    assert asking.made({}).metadata.name == "x"  # type: ignore[attr-defined]


def test_a_pointer_to_an_empty_value_is_kept_and_an_empty_plain_value_is_not() -> None:
    spec = Asking("apps", "Deployment").defaulted({"spec": {"replicas": 0, "strategy": {"type": ""}}})["spec"]
    assert spec["replicas"] == 0
    assert spec["strategy"]["type"] == "RollingUpdate"
