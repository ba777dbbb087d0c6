"""The kinds that schedulers, controllers and charts expect: what is refused, with which field and words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.asking import Asking

Tree = dict[str, Any]

TEMPLATE: Tree = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "app"}]}}
SELECTOR: Tree = {"matchLabels": {"a": "b"}}
JOB: Tree = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}}}}
STATEFUL_SET: Tree = {"spec": {"selector": SELECTOR, "serviceName": "s", "template": TEMPLATE}}
CRON_JOB: Tree = {"spec": {"schedule": "* * * * *", "jobTemplate": JOB}}
CLAIM: Tree = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
VOLUME: Tree = {
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
}
STORAGE = "storage.k8s.io"
NETWORK = "networking.k8s.io"
BACKEND: Tree = {"service": {"name": "s", "port": {"number": 80}}}
SCALED: Tree = {
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
}
FLOW = "flowcontrol.apiserver.k8s.io"
LEVEL: Tree = {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}
RESOURCES: Tree = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}
FLOW_RULE: Tree = {"subjects": [{"kind": "User", "user": {"name": "u"}}], "resourceRules": [RESOURCES]}
FLOW_SCHEMA: Tree = {"spec": {"priorityLevelConfiguration": {"name": "l"}, "rules": [FLOW_RULE]}}
GOOD = {
    ("apps", "StatefulSet"): STATEFUL_SET,
    ("apps", "ControllerRevision"): {"data": {"spec": {}}, "revision": 1},
    ("batch", "CronJob"): CRON_JOB,
    ("policy", "PodDisruptionBudget"): {"spec": {"maxUnavailable": "30%", "selector": SELECTOR}},
    ("", "PersistentVolumeClaim"): CLAIM,
    ("", "PersistentVolume"): VOLUME,
    ("", "LimitRange"): {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}},
    ("", "Endpoints"): {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ("discovery.k8s.io", "EndpointSlice"): {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 80}],
    },
    (STORAGE, "StorageClass"): {"provisioner": "example.com/disk"},
    (STORAGE, "CSIDriver"): {"spec": {}},
    (STORAGE, "CSINode"): {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}},
    (STORAGE, "CSIStorageCapacity"): {"storageClassName": "fast", "capacity": "1Ti"},
    (STORAGE, "VolumeAttachment"): {
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    },
    (STORAGE, "VolumeAttributesClass"): {"driverName": "d.example.com", "parameters": {"iops": "10"}},
    (NETWORK, "NetworkPolicy"): {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": SELECTOR}]}]}},
    (NETWORK, "Ingress"): {"spec": {"defaultBackend": BACKEND}},
    (NETWORK, "IngressClass"): {"spec": {"controller": "example.com/ingress"}},
    (NETWORK, "ServiceCIDR"): {"spec": {"cidrs": ["10.0.0.0/24"]}},
    ("node.k8s.io", "RuntimeClass"): {"handler": "runc"},
    ("autoscaling", "HorizontalPodAutoscaler"): SCALED,
    (FLOW, "PriorityLevelConfiguration"): LEVEL,
    (FLOW, "FlowSchema"): FLOW_SCHEMA,
}


@pytest.mark.parametrize(("group", "kind"), GOOD)
def test_a_good_object_is_let_through(group: str, kind: str) -> None:
    assert Asking(group, kind).create(GOOD[group, kind]) == []


BAD = [
    ("apps", "StatefulSet", "spec.selector", None, "Required value"),
    ("apps", "StatefulSet", "spec.replicas", -1, "Invalid value: -1: must be greater than or equal to 0"),
    (
        "apps",
        "StatefulSet",
        "spec.podManagementPolicy",
        "Any",
        "Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'",
    ),
    ("batch", "CronJob", "spec.schedule", "", "Required value"),
    ("batch", "CronJob", "spec.schedule", "x", 'Invalid value: "x": expected exactly 5 fields, found 1: [x]'),
    ("batch", "CronJob", "spec.timeZone", "Mars/Olympus", 'Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus'),
    (
        "batch",
        "CronJob",
        "spec.concurrencyPolicy",
        "Maybe",
        'Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
    ),
    ("policy", "PodDisruptionBudget", "spec.maxUnavailable", "200%", 'Invalid value: "200%": must not be greater than 100%'),
    ("", "PersistentVolumeClaim", "spec.accessModes", [], "Required value: at least 1 access mode is required"),
    ("", "PersistentVolume", "spec.capacity", {}, "Required value"),
    (STORAGE, "StorageClass", "provisioner", "", "Required value"),
    (STORAGE, "CSINode", "spec.drivers[0].nodeID", "", "Required value"),
    (STORAGE, "VolumeAttachment", "spec.source.persistentVolumeName", "", "Required value: must specify non empty persistentVolumeName"),
    (NETWORK, "Ingress", "spec.defaultBackend.service.name", "", "Required value"),
    (NETWORK, "IngressClass", "spec.controller", "x", 'Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'),
    ("discovery.k8s.io", "EndpointSlice", "addressType", "", "Required value"),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        "endpoints[0].addresses[0]",
        "here",
        'Invalid value: "here": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    ("", "Endpoints", "subsets[0].addresses[0].ip", "127.0.0.1", 'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
    ("autoscaling", "HorizontalPodAutoscaler", "spec.maxReplicas", 0, "Required value"),
    (FLOW, "PriorityLevelConfiguration", "spec.type", "x", 'Unsupported value: "x": supported values: "Exempt", "Limited"'),
]  # fmt: skip


def changed(tree: Any, path: str, value: Any) -> Any:
    """A copy of a tree with another value in one place."""
    head, _, rest = path.replace("[", ".").replace("]", "").partition(".")
    key: Any = int(head) if head.isdigit() else head
    copy = list(tree) if isinstance(tree, list) else dict(tree)
    if rest:
        copy[key] = changed(tree[key], rest, value)
    elif value is None:
        del copy[key]
    else:
        copy[key] = value
    return copy


@pytest.mark.parametrize(("group", "kind", "field", "value", "text"), BAD)
def test_a_bad_field_is_named(group: str, kind: str, field: str, value: Any, text: str) -> None:
    complaints = Asking(group, kind).create(changed(GOOD[group, kind], field, value))
    assert (field, text) in [(complaint.field, complaint.detail) for complaint in complaints]


LIMITS = "spec.limits[0]"
TARGET = "spec.metrics[0].resource.target"
RULE = "spec.rules[0].resourceRules[0]"
# A change, and the fields that Kubernetes names for it with their reasons, each as often as it does.
CAUSES: list[tuple[str, str, str, Any, list[str]]] = [
    ("apps", "StatefulSet", "metadata", {"name": "a.b"}, ["metadata.name Invalid"]),
    ("", "LimitRange", "spec.limits", [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
        [f"{LIMITS}.min[cpu] Invalid", f"{LIMITS}.defaultRequest[cpu] Invalid", f"{LIMITS}.default[cpu] Invalid"]),
    ("", "LimitRange", "spec.limits", [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}}],
        [f"{LIMITS}.defaultRequest[cpu] Invalid"]),
    ("", "LimitRange", "spec.limits[0].maxLimitRequestRatio", {"cpu": "3"}, [f"{LIMITS}.maxLimitRequestRatio[cpu] Invalid"]),
    ("", "LimitRange", "spec.limits", [{"type": "PersistentVolumeClaim"}], [f"{LIMITS}.limits Required"]),
    ("", "LimitRange", "spec.limits", [{"type": "Pod", "max": {"foo": "1"}}], [f"{LIMITS}.max[foo] Invalid"] * 2),
    ("", "PersistentVolume", "spec.capacity", {}, ["spec.capacity Required", "spec.capacity NotSupported"]),
    ("", "PersistentVolumeClaim", "spec.dataSourceRef", {"kind": "Pod", "name": "x"}, ["spec.dataSource Invalid", "spec.dataSourceRef Invalid"]),
    ("autoscaling", "HorizontalPodAutoscaler", "spec.metrics", [{"type": "Other"}], ["spec.metrics[0].type NotSupported"] * 2),
    ("autoscaling", "HorizontalPodAutoscaler", "spec.metrics", [{"type": "Resource", "resource": {"name": "cpu", "target": {}}}],
        [f"{TARGET}.type Required", f"{TARGET}.type Invalid", f"{TARGET}.averageUtilization Required"]),
    ("autoscaling", "HorizontalPodAutoscaler", "spec.metrics",
        [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 1, "averageValue": "1"}}}],
        [f"{TARGET}.averageValue Forbidden"]),
    (NETWORK, "NetworkPolicy", "spec.ingress[0].from[0]", {"ipBlock": {"cidr": ""}}, ["spec.ingress[0].from[0].ipBlock.cidr Required"]),
    (NETWORK, "NetworkPolicy", "spec.ingress[0].ports", [{"port": 80, "endPort": 70000}], ["spec.ingress[0].ports[0].endPort Invalid"]),
    (NETWORK, "Ingress", "spec.rules", [{"http": {"paths": [{"path": "/a/../b", "pathType": "Prefix", "backend": BACKEND}]}}],
        ["spec.rules[0].http.paths[0].path Invalid"]),
    (NETWORK, "Ingress", "spec.rules", [{"http": {"paths": [{"path": "/", "backend": {}}]}}], ["spec.rules[0].http.paths[0].pathType Required"]),
    (NETWORK, "IngressClass", "spec.parameters", {"kind": "K", "name": "n", "scope": "Cluster", "namespace": "x"}, ["spec.parameters.namespace Forbidden"]),
    (NETWORK, "ServiceCIDR", "spec.cidrs", ["10.0.0.0/24", "10.1.0.0/24"], ["spec.cidrs Invalid"]),
    ("node.k8s.io", "RuntimeClass", "overhead", {"podFixed": {"cpu": "-1"}}, ["overhead.limits[cpu] Invalid"]),
    (STORAGE, "CSIDriver", "spec.volumeLifecycleModes", ["Sometimes"], ["spec.volumeLifecycleModes NotSupported"]),
    (STORAGE, "CSIStorageCapacity", "storageClassName", "", ["storageClassName Invalid"]),
    (STORAGE, "VolumeAttachment", "spec.attacher", "", ["spec.attacher Required"]),
    (STORAGE, "StorageClass", "allowedTopologies", [{"matchLabelExpressions": [{"key": "z", "values": []}]}],
        ["allowedTopologies[0].matchLabelExpressions[0].values Required"]),
    ("discovery.k8s.io", "EndpointSlice", "endpoints[0].hints", {"forZones": [{"name": "a"}, {"name": "a"}]},
        ["endpoints[0].hints.forZones[1].name Duplicate"]),
    ("discovery.k8s.io", "EndpointSlice", "endpoints[0].addresses", ["fd00::1"], ["endpoints[0].addresses[0] Invalid"]),
    (FLOW, "FlowSchema", "spec.matchingPrecedence", 1, ["spec.matchingPrecedence Invalid"]),
    (FLOW, "FlowSchema", "spec.rules[0].resourceRules[0]", {}, [f"{RULE}.{name} Required" for name in RESOURCES]),
    (FLOW, "FlowSchema", "spec.rules[0].subjects[0].group", {"name": "g"}, ["spec.rules[0].subjects[0].group Forbidden"]),
    (FLOW, "PriorityLevelConfiguration", "spec", {"type": "Exempt"}, ["spec.type Invalid"]),
    (FLOW, "PriorityLevelConfiguration", "spec.limited.limitResponse.queuing", {"queues": 4, "handSize": 8},
        ["spec.limited.limitResponse.queuing.handSize Invalid"]),
    (FLOW, "PriorityLevelConfiguration", "spec.limited.limitResponse.queuing", {"queues": 10000, "handSize": 8},
        ["spec.limited.limitResponse.queuing.handSize Invalid"]),
]  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "field", "value", "causes"), CAUSES)
def test_every_cause_is_told_as_often_as_kubernetes_does(
    group: str, kind: str, field: str, value: Any, causes: list[str]
) -> None:
    complaints = Asking(group, kind).create(changed(GOOD[group, kind], field, value))
    found = [f"{complaint.field} {complaint.reason.removeprefix('FieldValue')}" for complaint in complaints]
    assert sorted(found) == sorted(causes)


@pytest.mark.parametrize(("group", "kind", "field"), [(STORAGE, "CSINode", "drivers"), ("", "LimitRange", "limits")])
def test_a_required_list_may_be_empty_and_is_then_written_as_null(group: str, kind: str, field: str) -> None:
    asking = Asking(group, kind)
    assert asking.shown(asking.made({"spec": {field: []}}))["spec"] == {field: None}
    assert asking.create({"spec": {field: []}}) == []


def test_a_source_of_data_that_the_old_field_never_had_is_dropped() -> None:
    asking = Asking("", "PersistentVolumeClaim")
    made = asking.made(changed(CLAIM, "spec.dataSource", {"apiGroup": "", "kind": "Pod", "name": "x"}))
    assert not {"dataSource", "dataSourceRef"} & asking.shown(made)["spec"].keys()


@pytest.mark.parametrize(
    ("group", "kind", "status", "fields"),
    [
        (NETWORK, "Ingress", {"loadBalancer": {"ingress": [{"ip": "x", "hostname": "1.2.3.4"}]}}, ["ip", "hostname"]),
        ("", "PersistentVolumeClaim", {"capacity": {"storage": "-1"}}, ["capacity[storage]"]),
        ("apps", "StatefulSet", {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}, ["readyReplicas", "availableReplicas", "availableReplicas"]),
        ("policy", "PodDisruptionBudget", {"disruptionsAllowed": -1}, ["disruptionsAllowed"]),
        ("autoscaling", "HorizontalPodAutoscaler", {"currentReplicas": -1}, ["currentReplicas"]),
        (FLOW, "FlowSchema", {"conditions": [{"type": "Dangling"}, {"type": "Dangling"}]}, ["conditions[1].type"]),
    ],
)  # fmt: skip
def test_a_status_is_judged_too(group: str, kind: str, status: Tree, fields: list[str]) -> None:
    tree = GOOD[group, kind]
    complaints = Asking(group, kind).update(tree, {**tree, "status": status}, "status")
    assert [
        complaint.field.removeprefix("status.").removeprefix("loadBalancer.ingress[0].") for complaint in complaints
    ] == fields


def test_a_driver_does_not_change_how_volumes_live() -> None:
    driver: Tree = {"spec": {"attachRequired": True}}
    other: Tree = {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}}
    complaints = Asking(STORAGE, "CSIDriver").update(driver, other)
    assert [complaint.field for complaint in complaints] == ["spec.attachedRequired", "spec.volumeLifecycleModes"]


def test_a_stateful_set_keeps_its_identity() -> None:
    other = changed(STATEFUL_SET, "spec.serviceName", "other")
    (complaint,) = Asking("apps", "StatefulSet").update(STATEFUL_SET, other)
    assert str(complaint) == 'spec.serviceName: Invalid value: "other": field is immutable'


def test_a_stateful_set_may_be_scaled() -> None:
    assert Asking("apps", "StatefulSet").update(STATEFUL_SET, changed(STATEFUL_SET, "spec.replicas", 5)) == []


def test_a_claim_for_a_volume_does_not_change() -> None:
    smaller = changed(CLAIM, "spec.resources.requests.storage", "1Mi")
    (complaint,) = Asking("", "PersistentVolumeClaim").update(CLAIM, smaller)
    assert complaint.detail.startswith("Forbidden: spec is immutable after creation")


def test_limits_are_in_order() -> None:
    limits = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}
    complaints = Asking("", "LimitRange").create({"spec": {"limits": [limits]}})
    assert 'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1' in map(
        str, complaints
    )
