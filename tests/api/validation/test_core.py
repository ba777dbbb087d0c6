"""Namespaces, nodes, configuration, services, quotas, leases, events, bindings."""

from __future__ import annotations

import pytest

from dray.api.wire import Tree
from tests.api.asking import NOW, Asking, faults


@pytest.mark.parametrize(
    ("group", "kind", "tree", "expected"),
    [
        ("", "Namespace", {"metadata": {"name": "a.b"}}, [("metadata.name", "Invalid")]),
        ("", "Namespace", {"spec": {"finalizers": ["noslash"]}}, [("spec.finalizers[0]", "Invalid")]),
        ("", "Node", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, []),
        (
            "",
            "Node",
            {"spec": {"taints": [{"key": "a"}, {"key": "b", "effect": "X"}]}},
            [
                ("metadata.taints[0].effect", "Required"),
                ("metadata.taints[1].effect", "NotSupported"),
            ],
        ),
        (
            "",
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            [("metadata.taints[1]", "Duplicate")],
        ),
        ("", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}}, []),
        (
            "",
            "ConfigMap",
            {"data": {"a/b": "", "c": ""}, "binaryData": {"c": ""}},
            [
                ("data[a/b]", "Invalid"),
                ("data[c]", "Invalid"),
            ],
        ),
        ("", "ConfigMap", {"data": {"a": "x" * (1024 * 1024 + 1)}}, [("", "TooLong")]),
        ("", "Secret", {"data": {"..": ""}}, [("data[..]", "Invalid")]),
        ("", "Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, [("data[tls.key]", "Required")]),
        (
            "",
            "Secret",
            {"type": "kubernetes.io/service-account-token"},
            [("metadata.annotations[kubernetes.io/service-account.name]", "Required")],
        ),
        ("", "Service", {"spec": {"ports": [{"port": 80}]}}, []),
        ("", "Service", {"spec": {"clusterIP": "None"}}, []),
        ("", "Service", {}, [("spec.ports", "Required")]),
        (
            "",
            "Service",
            {"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}},
            [("metadata.name", "Invalid")],
        ),
        ("", "Service", {"spec": {"type": "ExternalName"}}, [("spec.externalName", "Required")]),
        ("", "Service", {"spec": {"type": "X", "ports": [{"port": 1}]}}, [("spec.type", "NotSupported")]),
        (
            "",
            "Service",
            {"spec": {"ports": [{"port": 0}, {"port": 1, "name": "a", "protocol": "X"}]}},
            [
                ("spec.ports[0].name", "Required"),
                ("spec.ports[0].port", "Invalid"),
                ("spec.ports[0].targetPort", "Invalid"),
                ("spec.ports[1].protocol", "NotSupported"),
            ],
        ),
        (
            "",
            "Service",
            {"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]}},
            [
                ("spec.ports[1].name", "Duplicate"),
                ("spec.ports[1]", "Duplicate"),
            ],
        ),
        ("", "ResourceQuota", {"spec": {"hard": {"pods": "3", "count/jobs.batch": "1", "requests.cpu": "500m"}}}, []),
        (
            "",
            "ResourceQuota",
            {"spec": {"hard": {"pods": "500m", "cpu": "-1"}}},
            [
                ("spec.hard[pods]", "Invalid"),
                ("spec.hard[cpu]", "Invalid"),
            ],
        ),
        ("", "ResourceQuota", {"spec": {"hard": {"nope": "1"}}}, [("spec.hard[nope]", "Invalid")] * 2),
        ("coordination.k8s.io", "Lease", {"spec": {"leaseDurationSeconds": 15}}, []),
        (
            "coordination.k8s.io",
            "Lease",
            {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
            [
                ("spec.leaseDurationSeconds", "Invalid"),
                ("spec.leaseTransitions", "Invalid"),
            ],
        ),
        ("", "Event", {"involvedObject": {"namespace": "ns"}}, []),
        ("", "Event", {"involvedObject": {"namespace": "other"}}, [("involvedObject.namespace", "Invalid")]),
        (
            "events.k8s.io",
            "Event",
            {"regarding": {"namespace": "ns"}, "type": "X"},
            [
                ("eventTime", "Required"),
                ("reportingController", "Required"),
                ("reportingInstance", "Required"),
                ("action", "Required"),
                ("reason", "Required"),
                ("type", "Invalid"),
            ],
        ),
        ("", "Binding", {"target": {"kind": "Pod"}}, [("target.kind", "NotSupported"), ("target.name", "Required")]),
        ("", "PodTemplate", {"template": {"spec": {}}}, [("template.spec.containers", "Required")]),
        ("", "ServiceAccount", {"metadata": {"name": "A"}}, [("metadata.name", "Invalid")]),
    ],
)
def test_new_objects(group: str, kind: str, tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking(group, kind).create(tree)) == expected


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        (
            "ConfigMap",
            {"immutable": True, "data": {"a": "b"}},
            {"data": {"a": "c"}},
            [
                ("immutable", "Forbidden"),
                ("data", "Forbidden"),
            ],
        ),
        ("Secret", {"type": "a"}, {"type": "b"}, [("type", "Invalid")]),
        (
            "Secret",
            {"immutable": True, "data": {"a": ""}},
            {"immutable": True, "data": {"a": "YQ=="}},
            [("data", "Forbidden")],
        ),
        ("Node", {"spec": {"providerID": "x"}}, {"spec": {"providerID": "y"}}, [("spec.providerID", "Forbidden")]),
        ("Node", {}, {"spec": {"podCIDR": "10.0.0.0/24"}}, []),
        (
            "Service",
            {"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}},
            {"spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 1}]}},
            [("spec.clusterIPs[0]", "Invalid")],
        ),
        ("ResourceQuota", {}, {"spec": {"scopes": ["BestEffort"]}}, [("spec.scopes", "Invalid")]),
    ],
)
def test_changed_objects(kind: str, old: Tree, new: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(Asking("", kind).update(old, new)) == expected


def test_a_complete_event_is_accepted() -> None:
    tree = {
        "eventTime": NOW.replace("Z", ".000000Z"),
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "regarding": {"namespace": "ns"},
    }
    assert Asking("events.k8s.io", "Event").create(tree) == []
