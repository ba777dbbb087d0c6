"""What the server decides: status, generations, guarded fields, finalizers, deprecations."""

from __future__ import annotations

import pytest

from dray.api import strategy
from dray.api.gates import FeatureGates
from dray.api.kinds.pod import quality_of_service
from dray.api.resources import BY_KIND, DRA
from dray.api.wire import Tree
from tests.api.asking import ALL, NOW, Asking

CLAIM = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}


def test_status_is_not_taken_from_the_author() -> None:
    claims = Asking(DRA, "ResourceClaim")
    assert claims.shown(claims.made({**CLAIM, "status": {"allocation": ALLOCATION}}))["status"] == {}


def test_a_node_registers_with_its_status() -> None:
    nodes = Asking("", "Node")
    made = nodes.shown(nodes.made({"status": {"capacity": {"cpu": "1"}}}))
    assert made["status"]["allocatable"] == {"cpu": "1"}


def test_status_and_the_rest_are_written_apart() -> None:
    claims = Asking(DRA, "ResourceClaim")
    old = claims.made({**CLAIM, "metadata": {"labels": {"a": "b"}}})
    other: Tree = {"spec": {"devices": {"requests": []}}, "status": {"allocation": ALLOCATION}}
    status = claims.shown(claims.changed(old, {**other, "metadata": {"labels": {"c": "d"}}}, "status"))
    assert status["spec"] == claims.shown(old)["spec"]
    assert status["status"] == {"allocation": ALLOCATION}
    assert status["metadata"]["labels"] == {"a": "b"}
    main = claims.shown(claims.changed(old, other))
    assert main["spec"] == {"devices": {"requests": None}}
    assert main["status"] == {}


def test_generations_count_changes_of_the_spec() -> None:
    classes = Asking(DRA, "DeviceClass")
    old = classes.made({})
    assert old.metadata.generation == 1  # type: ignore[attr-defined]
    assert classes.changed(old, {"metadata": {"labels": {"a": "b"}}}).metadata.generation == 1  # type: ignore[attr-defined]
    changed = classes.changed(old, {"spec": {"extendedResourceName": "x.io/y"}})
    assert changed.metadata.generation == 2  # type: ignore[attr-defined]


def test_claims_have_no_generation() -> None:
    claims = Asking(DRA, "ResourceClaim")
    assert claims.made({**CLAIM, "metadata": {"generation": 7}}).metadata.generation == 0  # type: ignore[attr-defined]


def test_annotations_move_a_deployment() -> None:
    deployments = Asking("apps", "Deployment")
    old = deployments.made({})
    changed = deployments.changed(old, {"metadata": {"annotations": {"a": "b"}}})
    assert changed.metadata.generation == 2  # type: ignore[attr-defined]


def test_new_groups_are_protected() -> None:
    groups = Asking("scheduling.k8s.io", "PodGroup")
    made = groups.shown(groups.made({"metadata": {"finalizers": ["x.io/y"]}}))
    assert made["metadata"]["finalizers"] == ["x.io/y", "scheduling.k8s.io/podgroup-protection"]
    assert made["spec"]["priority"] == 0


def test_new_namespaces_are_active() -> None:
    namespaces = Asking("", "Namespace")
    made = namespaces.shown(namespaces.made({}))
    assert (made["status"], made["spec"]) == ({"phase": "Active"}, {"finalizers": ["kubernetes"]})


def test_a_job_finds_its_pods_by_its_uid() -> None:
    jobs = Asking("batch", "Job")
    spec = jobs.shown(jobs.made({}))["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "x"
    manual = jobs.shown(jobs.made({"spec": {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}}))["spec"]
    assert manual["selector"] == {"matchLabels": {"a": "b"}}


def test_a_service_keeps_its_address() -> None:
    services = Asking("", "Service")
    old = services.made({"spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}})
    spec = services.shown(services.changed(old, {"spec": {"ports": [{"port": 81}]}}))["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("10.0.0.7", ["10.0.0.7"])


def test_a_new_effect_starts_anew() -> None:
    rules = Asking(DRA, "DeviceTaintRule")

    def rule(effect: str, **extra: str) -> Tree:
        return {"spec": {"taint": {"key": "k", "effect": effect, **extra}}}

    old = rules.made(rule("NoSchedule"))
    assert rules.changed(old, rule("NoExecute")).spec.taint.timeAdded != NOW  # type: ignore[attr-defined]
    assert rules.changed(old, rule("NoSchedule")).spec.taint.timeAdded == NOW  # type: ignore[attr-defined]
    later = "2027-01-01T00:00:00Z"
    told = rules.changed(old, rule("NoExecute", timeAdded=later))
    assert told.spec.taint.timeAdded == later  # type: ignore[attr-defined]


def test_reports_about_devices_go_with_the_allocation() -> None:
    claims = Asking(DRA, "ResourceClaim")
    report = [{"driver": "d", "pool": "p", "device": "x", "conditions": None}]
    allocated = claims.changed(claims.made(CLAIM), {"status": {"allocation": ALLOCATION, "devices": report}}, "status")
    assert claims.shown(allocated)["status"]["devices"] == report
    freed = claims.changed(allocated, {"status": {"devices": report}}, "status")
    assert claims.shown(freed)["status"] == {}


@pytest.mark.parametrize(
    ("containers", "class_"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1000m", "memory": "1"}}, {}], "Burstable"),
        ([{"requests": {"x.io/y": "1"}, "limits": {"x.io/y": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
    ],
)
def test_quality_of_service(containers: list[Tree], class_: str) -> None:
    assert quality_of_service({"containers": [{"resources": resources} for resources in containers]}) == class_


# Fields behind gates

ALTERNATIVES = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}
DERIVED = {"name": "x.io/y", "expression": "1"}
POD_OF_GROUP = {
    "spec": {
        "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "podGroupResourceClaim": "shared"}],
        "schedulingGroup": {"podGroupName": "group"},
    }
}
GUARDED: list[tuple[str, str, str, Tree, tuple[str, ...]]] = [
    (
        "DRAPrioritizedList",
        DRA,
        "ResourceClaim",
        {"spec": {"devices": {"requests": [ALTERNATIVES]}}},
        ("firstAvailable",),
    ),
    (
        "DRAAdminAccess",
        DRA,
        "ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"adminAccess": True}}]}}},
        ("adminAccess",),
    ),
    (
        "DRADeviceTaints",
        DRA,
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"tolerations": [{"key": "k"}]}}]}}}},
        ("tolerations",),
    ),
    (
        "DRADeviceTaints",
        DRA,
        "ResourceSlice",
        {"spec": {"devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}]}},
        ("taints",),
    ),
    (
        "DRADerivedAttributes",
        DRA,
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"derivedAttributes": [DERIVED]}}]}}}},
        ("derivedAttributes",),
    ),
    (
        "DRAListTypeAttributes",
        DRA,
        "ResourceSlice",
        {"spec": {"devices": [{"name": "d", "attributes": {"a": {"int": 1, "ints": [1]}, "b": {"strings": ["x"]}}}]}},
        ("ints", "strings"),
    ),
    (
        "DRANodeAllocatableResources",
        DRA,
        "ResourceSlice",
        {"spec": {"devices": [{"name": "d", "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}}}]}},
        ("nodeAllocatableResources",),
    ),
    (
        "DRADeviceCompatibilityGroups",
        DRA,
        "ResourceSlice",
        {"spec": {"devices": [{"name": "d", "consumesCounters": [{"compatibilityGroups": ["a"]}]}]}},
        ("compatibilityGroups",),
    ),
    (
        "DRAOptionalNodeOperations",
        DRA,
        "ResourceSlice",
        {"spec": {"skipNodeOperations": ["*"]}},
        ("skipNodeOperations",),
    ),
    (
        "DRAPartitionableDevicesType",
        DRA,
        "ResourceSlice",
        {"spec": {"partitionTypeAttribute": "x.io/type"}},
        ("partitionTypeAttribute",),
    ),
    (
        "DRAPartitionableDevicesType",
        DRA,
        "ResourcePoolStatusRequest",
        {"spec": {"driver": "d", "defaultPartitionTypeAttribute": "x.io/type"}},
        ("defaultPartitionTypeAttribute",),
    ),
    (
        "TopologyAwareWorkloadScheduling",
        "scheduling.k8s.io",
        "Workload",
        {"spec": {"podGroupTemplates": [{"name": "t", "schedulingConstraints": {"topology": [{"key": "zone"}]}}]}},
        ("topology",),
    ),
    (
        "DRAReservedForWorkloads",
        DRA,
        "ResourceClaim",
        {"spec": {"reservedFor": {"resource": "jobs", "name": "j", "uid": "u"}}},
        ("reservedFor",),
    ),
    (
        "WorkloadPodGroupResourceClaimTemplate",
        "scheduling.k8s.io",
        "PodGroup",
        {"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}},
        ("resourceClaims",),
    ),
    ("WorkloadPodGroupResourceClaimTemplate", "", "Pod", POD_OF_GROUP, ("podGroupResourceClaim",)),
    ("GenericWorkload", "", "Pod", POD_OF_GROUP, ("schedulingGroup", "podGroupResourceClaim")),
    ("DynamicResourceAllocation", "", "Pod", POD_OF_GROUP, ("resourceClaims", "claims")),
    (
        "GenericWorkload",
        "apps",
        "Deployment",
        {"spec": {"template": {"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}}}},
        ("workloadRef",),
    ),
    (
        "DynamicResourceAllocation",
        "apps",
        "StatefulSet",
        {"spec": {"template": POD_OF_GROUP}},
        ("resourceClaims", "claims"),
    ),
    (
        "DynamicResourceAllocation",
        "batch",
        "CronJob",
        {"spec": {"jobTemplate": {"spec": {"template": POD_OF_GROUP}}}},
        ("resourceClaims", "claims"),
    ),
]


def _without(gate: str) -> FeatureGates:
    """Everything on but one gate and what needs it."""
    chosen = dict(ALL.chosen) | {gate: False}
    if gate == "DynamicResourceAllocation":
        chosen = {gate: False}
    elif gate == "GenericWorkload":
        needing = "CompositePodGroup TopologyAwareWorkloadScheduling WorkloadPodGroupResourceClaimTemplate"
        chosen |= dict.fromkeys((*needing.split(), "PodGroupPreemptionPolicy", "WorkloadWithJob"), False)
    return FeatureGates.of(chosen)


@pytest.mark.parametrize(("gate", "group", "kind", "tree", "fields"), GUARDED)
def test_fields_of_disabled_gates_are_dropped_from_new_objects(
    gate: str, group: str, kind: str, tree: Tree, fields: tuple[str, ...]
) -> None:
    with_gate = str(Asking(group, kind).shown(Asking(group, kind).made(tree)))
    off = Asking(group, kind, gates=_without(gate))
    without = str(off.shown(off.made(tree)))
    for field in fields:
        assert f"'{field}'" in with_gate
        assert f"'{field}'" not in without


@pytest.mark.parametrize(("gate", "group", "kind", "tree", "fields"), GUARDED)
def test_objects_keep_fields_of_disabled_gates(
    gate: str, group: str, kind: str, tree: Tree, fields: tuple[str, ...]
) -> None:
    old = Asking(group, kind).made(tree)
    off = Asking(group, kind, gates=_without(gate))
    kept = str(off.shown(off.changed(old, tree)))
    for field in fields:
        assert f"'{field}'" in kept


def test_an_allocation_names_no_operations_to_skip_while_none_can_be() -> None:
    allocation = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "skipNodeOperations": ["*"]}]}}
    claims = Asking(DRA, "ResourceClaim", gates=_without("DRAOptionalNodeOperations"))
    allocated = claims.changed(claims.made(CLAIM), {"status": {"allocation": allocation}}, "status")
    assert claims.shown(allocated)["status"] == {"allocation": ALLOCATION}


@pytest.mark.parametrize(
    ("kind", "version", "warning"),
    [
        ("ResourceClaim", "v1", None),
        (
            "ResourceClaim",
            "v1beta1",
            "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+",
        ),
        (
            "ResourceSlice",
            "v1beta2",
            "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+",
        ),
        ("DeviceTaintRule", "v1beta2", None),
        (
            "DeviceTaintRule",
            "v1alpha3",
            "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+",
        ),
        ("ResourcePoolStatusRequest", "v1alpha3", None),
    ],
)
def test_versions_on_their_way_out_are_announced(kind: str, version: str, warning: str | None) -> None:
    assert strategy.deprecation(BY_KIND[DRA, kind], version) == warning


@pytest.mark.parametrize(
    ("group", "kind", "version", "allowed"),
    [
        (DRA, "ResourceClaim", "v1", True),
        (DRA, "DeviceTaintRule", "v1", False),
        (DRA, "DeviceTaintRule", "v1beta2", True),
        (DRA, "ResourcePoolStatusRequest", "v1alpha3", False),
        ("coordination.k8s.io", "Lease", "v1", False),
    ],
)
def test_some_updates_must_say_what_they_are_based_on(group: str, kind: str, version: str, allowed: bool) -> None:
    assert strategy.allows_unconditional_update(BY_KIND[group, kind], version) is allowed


def test_an_api_service_that_no_other_server_answers_for_is_available() -> None:
    services = BY_KIND["apiregistration.k8s.io", "APIService"]
    local: Tree = {"metadata": {"name": "v1.a.b"}, "spec": {"group": "a.b", "version": "v1"}}
    strategy.prepare_create(services, local, FeatureGates())
    assert [(one["type"], one["reason"]) for one in local["status"]["conditions"]] == [("Available", "Local")]
    remote = {**local, "spec": {**local["spec"], "service": {"name": "s", "namespace": "n"}}}
    strategy.prepare_create(services, remote, FeatureGates())
    assert "status" not in remote
