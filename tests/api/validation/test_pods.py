"""Pods: what they may say, and the little of it that may change."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.api.wire import Tree
from tests.api.asking import Asking, faults

PODS = Asking("", "Pod")


def _spec_of(**spec: Any) -> Tree:
    return {"spec": {"containers": [_container()], **spec}}


def _container(**fields: Any) -> Tree:
    return {"name": "c", "image": "app", **fields}


def _with(**fields: Any) -> Tree:
    return _spec_of(containers=[_container(**fields)])


def _affinity(rules: Tree) -> Tree:
    return _spec_of(affinity=rules)


CLAIM = {"name": "gpu", "resourceClaimName": "x"}


@pytest.mark.parametrize(
    "tree",
    [
        _spec_of(),
        _with(resources={"limits": {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}}),
        _with(ports=[{"name": "http", "containerPort": 80}], env=[{"name": "A", "value": "b"}]),
        _with(
            livenessProbe={"tcpSocket": {"port": "http"}},
            readinessProbe={"exec": {"command": ["x"]}, "successThreshold": 2},
        ),
        _spec_of(volumes=[{"name": "v"}], containers=[_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]),
        _spec_of(tolerations=[{"operator": "Exists"}, {"key": "k", "effect": "NoExecute", "tolerationSeconds": 5}]),
        _spec_of(
            resourceClaims=[CLAIM], containers=[_container(resources={"claims": [{"name": "gpu", "request": "r"}]})]
        ),
        _spec_of(resourceClaims=[{"name": "g", "podGroupResourceClaim": "c"}], schedulingGroup={"podGroupName": "x"}),
        _spec_of(workloadRef={"name": "w", "podGroupName": "g"}, schedulingGroup={"podGroupName": "g"}),
        _spec_of(
            initContainers=[
                {"name": "i", "image": "x", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}
            ]
        ),
        _affinity(
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]
                    }
                }
            }
        ),
        _spec_of(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
        ),
    ],
)
def test_good_pods(tree: Tree) -> None:
    assert PODS.create(tree) == []


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"spec": {}}, [("spec.containers", "Required")]),
        (_with(name=""), [("spec.containers[0].name", "Required")]),
        (_with(name="C"), [("spec.containers[0].name", "Invalid")]),
        (_with(image=""), [("spec.containers[0].image", "Required")]),
        (_with(image=" app"), [("spec.containers[0].image", "Invalid")]),
        (_with(imagePullPolicy="Often"), [("spec.containers[0].imagePullPolicy", "NotSupported")]),
        (_spec_of(containers=[_container(), _container()]), [("spec.containers[1].name", "Duplicate")]),
        (_spec_of(initContainers=[_container()]), [("spec.initContainers[0].name", "Duplicate")]),
        (
            _with(ports=[{"containerPort": 0}, {"containerPort": 70000, "protocol": "X", "name": "A"}]),
            [
                ("spec.containers[0].ports[0].containerPort", "Required"),
                ("spec.containers[0].ports[1].name", "Invalid"),
                ("spec.containers[0].ports[1].name", "Invalid"),
                ("spec.containers[0].ports[1].containerPort", "Invalid"),
                ("spec.containers[0].ports[1].protocol", "NotSupported"),
            ],
        ),
        (
            _with(env=[{"value": "x"}, {"name": "a=b"}, {"name": "x", "valueFrom": {}}]),
            [
                ("spec.containers[0].env[0].name", "Required"),
                ("spec.containers[0].env[1].name", "Invalid"),
                ("spec.containers[0].env[2].valueFrom", "Invalid"),
            ],
        ),
        (
            _with(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            [("spec.containers[0].resources.requests", "Invalid")],
        ),
        (
            _with(resources={"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}}),
            [
                ("spec.containers[0].resources.limits[cpu]", "Invalid"),
                ("spec.containers[0].resources.requests[cpu]", "Invalid"),
            ],
        ),
        (
            _with(resources={"requests": {"example.com/gpu": "1"}}),
            [("spec.containers[0].resources.limits", "Required")],
        ),
        (
            _with(resources={"limits": {"gpus": "1"}, "requests": {"gpus": "1"}}),
            [
                ("spec.containers[0].resources.limits[gpus]", "Invalid"),
                ("spec.containers[0].resources.limits[gpus]", "Invalid"),
                ("spec.containers[0].resources.requests[gpus]", "Invalid"),
                ("spec.containers[0].resources.requests[gpus]", "Invalid"),
            ],
        ),
        (
            _with(volumeMounts=[{"name": "v", "mountPath": ""}]),
            [
                ("spec.containers[0].volumeMounts[0].name", "NotFound"),
                ("spec.containers[0].volumeMounts[0].mountPath", "Required"),
            ],
        ),
        (_with(livenessProbe={}), [("spec.containers[0].livenessProbe", "Required")]),
        (
            _with(livenessProbe={"exec": {"command": ["x"]}, "successThreshold": 2}),
            [("spec.containers[0].livenessProbe.successThreshold", "Invalid")],
        ),
        (
            _with(livenessProbe={"exec": {}, "httpGet": {"port": 0}}),
            [
                ("spec.containers[0].livenessProbe.httpGet", "Forbidden"),
                ("spec.containers[0].livenessProbe.exec.command", "Required"),
                ("spec.containers[0].livenessProbe.httpGet.port", "Invalid"),
            ],
        ),
        (
            _spec_of(initContainers=[{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}]),
            [("spec.initContainers[0].livenessProbe", "Forbidden")],
        ),
        (_spec_of(restartPolicy="Sometimes"), [("spec.restartPolicy", "NotSupported")]),
        (_spec_of(dnsPolicy="X"), [("spec.dnsPolicy", "NotSupported")]),
        (_spec_of(nodeSelector={"a b": "c"}), [("spec.nodeSelector", "Invalid")]),
        (_spec_of(activeDeadlineSeconds=0), [("spec.activeDeadlineSeconds", "Invalid")]),
        (_spec_of(hostname="A"), [("spec.hostname", "Invalid")]),
        (_spec_of(tolerations=[{"operator": "Equal"}]), [("spec.tolerations[0].operator", "Invalid")]),
        (
            _spec_of(tolerations=[{"key": "k", "operator": "Is", "effect": "X", "tolerationSeconds": 1}]),
            [
                ("spec.tolerations[0].effect", "Invalid"),
                ("spec.tolerations[0].operator", "NotSupported"),
                ("spec.tolerations[0].effect", "NotSupported"),
            ],
        ),
        (_spec_of(schedulingGates=[{"name": "a"}, {"name": "a"}]), [("spec.schedulingGates[1]", "Duplicate")]),
        (
            _spec_of(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            [("spec.volumes[0].hostPath", "Forbidden")],
        ),
        (
            _spec_of(volumes=[{"name": "v"}, {"name": "v"}, {"name": "V"}]),
            [
                ("spec.volumes[1].name", "Duplicate"),
                ("spec.volumes[2].name", "Invalid"),
            ],
        ),
        (
            _spec_of(volumes=[{"name": "v", "secret": {}}, {"name": "w", "hostPath": {"path": "../x"}}]),
            [
                ("spec.volumes[0].secret.secretName", "Required"),
                ("spec.volumes[1].hostPath.path", "Invalid"),
            ],
        ),
        (
            _spec_of(
                volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 1}}]}}]
            ),
            [
                ("spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds", "Invalid"),
                ("spec.volumes[0].projected.sources[0].serviceAccountToken.path", "Required"),
            ],
        ),
        (_spec_of(resourceClaims=[CLAIM, CLAIM]), [("spec.resourceClaims[1].name", "Duplicate")]),
        (_spec_of(resourceClaims=[{**CLAIM, "name": ""}]), [("spec.resourceClaims[0].name", "Required")]),
        (
            _spec_of(resourceClaims=[{"name": "g", "podGroupResourceClaim": "c"}]),
            [("spec.resourceClaims[0].podGroupResourceClaim", "Invalid")],
        ),
        (
            _spec_of(resourceClaims=[{**CLAIM, "podGroupResourceClaim": "c"}], schedulingGroup={"podGroupName": "x"}),
            [("spec.resourceClaims[0]", "Invalid")],
        ),
        (
            _spec_of(
                resourceClaims=[CLAIM],
                containers=[_container(resources={"claims": [{"name": "gpu"}, {"name": "gpu"}]})],
            ),
            [("spec.containers[0].resources.claims[1]", "Duplicate")],
        ),
        (
            _spec_of(
                resourceClaims=[CLAIM],
                containers=[_container(resources={"claims": [{"name": "gpu", "request": "r"}, {"name": "gpu"}]})],
            ),
            [("spec.containers[0].resources.claims[1]", "Duplicate")],
        ),
        (
            _spec_of(
                resourceClaims=[CLAIM],
                containers=[_container(resources={"claims": [{"name": "gpu", "request": "r"}] * 2})],
            ),
            [("spec.containers[0].resources.claims[1]", "Duplicate")],
        ),
        (
            _spec_of(
                resourceClaims=[CLAIM], containers=[_container(resources={"claims": [{"name": "x"}, {"name": "x"}]})]
            ),
            [
                ("spec.containers[0].resources.claims[0]", "NotFound"),
                ("spec.containers[0].resources.claims[1]", "Duplicate"),
                ("spec.containers[0].resources.claims[1]", "NotFound"),
            ],
        ),
        (
            _spec_of(resourceClaims=[CLAIM], resources={"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}),
            [("spec.resources.claims", "Forbidden")],
        ),
        (
            _spec_of(resources={"limits": {"ephemeral-storage": "1", "hugepages-2Mi": "0"}, "requests": {"cpu": "-1"}}),
            [("spec.resources.limits[ephemeral-storage]", "NotSupported"), ("spec.resources.requests[cpu]", "Invalid")],
        ),
        (
            _spec_of(workloadRef={"name": "w", "podGroupName": "g"}, schedulingGroup={"podGroupName": "h"}),
            [("spec.workloadRef.podGroupName", "Invalid")],
        ),
        (
            _spec_of(workloadRef={}),
            [("spec.workloadRef.name", "Required"), ("spec.workloadRef.podGroupName", "Required")],
        ),
        (_spec_of(ephemeralContainers=[{"name": "e", "image": "x"}]), [("spec.ephemeralContainers", "Forbidden")]),
        (
            _affinity(
                {
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {}}]
                    }
                }
            ),
            [
                ("spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", "Invalid"),
                (
                    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey",
                    "Required",
                ),
            ],
        ),
        (
            _affinity(
                {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "z",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                            }
                        ]
                    }
                }
            ),
            [
                (
                    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector."
                    "matchExpressions[0].values",
                    "Required",
                )
            ],
        ),
        (
            _spec_of(topologySpreadConstraints=[{}]),
            [
                ("spec.topologySpreadConstraints[0].maxSkew", "Invalid"),
                ("spec.topologySpreadConstraints[0].topologyKey", "Required"),
                ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "NotSupported"),
            ],
        ),
    ],
)
def test_bad_pods(tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(PODS.create(tree)) == expected


def test_host_ports_are_container_ports_on_the_host_network() -> None:
    tree = _spec_of(hostNetwork=True, containers=[_container(ports=[{"containerPort": 80, "hostPort": 81}])])
    assert faults(PODS.create(tree)) == [("spec.containers[0].ports[0].hostPort", "Invalid")]


def test_a_claim_entry_left_without_source_is_refused() -> None:
    off = Asking("", "Pod", gates=FeatureGates.parse("GenericWorkload=true"))
    tree = _spec_of(resourceClaims=[{"name": "g", "podGroupResourceClaim": "c"}], schedulingGroup={"podGroupName": "x"})
    assert faults(off.create(tree)) == [("spec.resourceClaims[0]", "Invalid")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"containers": [_container(image="other")]}),
        ({}, {"activeDeadlineSeconds": 5}),
        ({"activeDeadlineSeconds": 9}, {"activeDeadlineSeconds": 5}),
        ({}, {"tolerations": [{"operator": "Exists"}]}),
        ({"schedulingGates": [{"name": "a"}]}, {}),
        ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"a": "b"}}),
    ],
)
def test_what_may_change(old: Tree, new: Tree) -> None:
    assert PODS.update(_spec_of(**old), _spec_of(**new)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"nodeSelector": {"a": "b"}}, [("spec", "Forbidden")]),
        ({}, {"containers": [_container(command=["x"])]}, [("spec", "Forbidden")]),
        ({}, {"containers": [_container(), _container(name="d")]}, [("spec.containers", "Forbidden")]),
        (
            {},
            {"containers": [_container(image="", imagePullPolicy="Always")]},
            [("spec.containers[0].image", "Required")],
        ),
        ({"activeDeadlineSeconds": 5}, {}, [("spec.activeDeadlineSeconds", "Invalid")]),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 6}, [("spec.activeDeadlineSeconds", "Invalid")]),
        ({"tolerations": [{"operator": "Exists"}]}, {}, [("spec.tolerations", "Forbidden")]),
        ({}, {"schedulingGates": [{"name": "a"}]}, [("spec.schedulingGates", "Forbidden")]),
        (
            {"resourceClaims": [CLAIM]},
            {"resourceClaims": [{**CLAIM, "resourceClaimName": "y"}]},
            [("spec", "Forbidden")],
        ),
    ],
)
def test_what_may_not_change(old: Tree, new: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(PODS.update(_spec_of(**old), _spec_of(**new))) == expected


def test_the_refusal_names_what_was_changed() -> None:
    [error] = PODS.update(_spec_of(), _spec_of(hostname="h"))
    assert error.detail.endswith("changed: `spec.hostname`")


def test_statuses_name_the_claims_of_the_pod() -> None:
    pod = _spec_of(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])

    def update(*statuses: Tree) -> list[tuple[str, str]]:
        return faults(PODS.update(pod, {"status": {"resourceClaimStatuses": list(statuses)}}, "status"))

    assert update({"name": "gpu", "resourceClaimName": "x"}) == []
    assert update({"name": "gpu"}, {"name": "gpu"}) == [("status.resourceClaimStatuses[1].name", "Duplicate")]
    assert update({"name": "gpu", "resourceClaimName": "X"}) == [
        ("status.resourceClaimStatuses[0].resourceClaimName", "Invalid")
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 1, "conditions": [{"type": "x.io/Done", "status": "True"}]}, []),
        ({"observedGeneration": -1}, [("status.observedGeneration", "Invalid")]),
        ({"conditions": [{"type": "a b", "status": "True"}]}, [("status.conditions[0].Type", "Invalid")]),
        (
            {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
            [("status.conditions[0].observedGeneration", "Invalid")],
        ),
    ],
)
def test_conditions_of_pods(status: Tree, expected: list[tuple[str, str]]) -> None:
    assert faults(PODS.update(_spec_of(), {"status": status}, "status")) == expected


EXTENDED = "status.extendedResourceClaimStatus"
MAPPING = {"containerName": "c", "resourceName": "x.io/gpu", "requestName": "r"}


@pytest.mark.parametrize(
    ("name", "mappings", "expected"),
    [
        ("claim", [MAPPING], []),
        ("", [], [(f"{EXTENDED}.requestMappings", "Required"), (f"{EXTENDED}.resourceClaimName", "Required")]),
        ("A_", [MAPPING], [(f"{EXTENDED}.resourceClaimName", "Invalid")]),
        ("claim", [{**MAPPING, "containerName": "d"}], [(f"{EXTENDED}.requestMappings[0].containerName", "Invalid")]),
        ("claim", [{**MAPPING, "resourceName": "cpu"}], [(f"{EXTENDED}.requestMappings[0].resourceName", "Invalid")]),
        ("claim", [{**MAPPING, "requestName": "R"}], [(f"{EXTENDED}.requestName", "Invalid")]),
        ("claim", [MAPPING] * 2, [(f"{EXTENDED}.requestMappings[1].{field}", "Duplicate") for field in MAPPING]),
    ],
)
def test_claims_for_extended_resources_serve_containers_of_the_pod(
    name: str, mappings: list[Tree], expected: list[tuple[str, str]]
) -> None:
    amounts = {"x.io/gpu": "1"}
    pod = PODS.made(_spec_of(containers=[_container(resources={"requests": amounts, "limits": amounts})]))
    status = {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": mappings}}
    assert faults(PODS.update(pod, {"status": status}, "status")) == expected


def test_whether_a_node_reports_a_pod_is_settled_at_once() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    ordinary, reported = (PODS.made({"metadata": metadata, **_spec_of()}) for metadata in ({}, mirror))
    for subresource in ("", "status"):
        for old, metadata, count in ((ordinary, mirror, 1), (reported, {}, 1), (reported, mirror, 0)):
            change = {**PODS.shown(old), "metadata": {**PODS.shown(old)["metadata"], "annotations": {}, **metadata}}
            found = faults(PODS.update(old, change, subresource=subresource))
            assert found == [("metadata.annotations[kubernetes.io/config.mirror]", "Forbidden")] * count
