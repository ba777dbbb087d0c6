"""Tables as recorded answers of Kubernetes v1.37 show them, and what rows carry."""

import json

import msgspec
import pytest

from dray.api.errors import BadRequest
from dray.api.resources import BY_NAME, RESOURCES
from dray.apiserver.tables import columns, include_policy, partial_list, table
from tests.apiserver.tables.printing import cells

NOW = 1_800_000_000.0
CREATED = "2027-01-15T08:00:00Z"  # the same instant


def make(group, plural, tree):
    resource = BY_NAME[group, plural]
    tree = {"apiVersion": resource.api_version(), "kind": resource.kind, **tree}
    tree["metadata"] = {"creationTimestamp": CREATED, **tree["metadata"]}
    return msgspec.convert(tree, resource.type)


def shown(obj, now=NOW, width=None):
    return cells(obj, now)[:width]


def definitions(*names, types=()):
    plain = [{"name": n, "type": "string", "format": "", "priority": 0} for n in names]
    plain[0]["format"] = "name"
    for column in plain:
        column["type"] = dict(types).get(column["name"], "string")
    return plain


SLICE = make(
    "resource.k8s.io",
    "resourceslices",
    {
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "worker-1",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        },
    },
)
GROUP = make(
    "scheduling.k8s.io",
    "podgroups",
    {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"schedulingPolicy": {"basic": {}}}},
)


@pytest.mark.parametrize(
    ("group", "plural", "names"),
    [
        ("resource.k8s.io", "resourceclaimtemplates", ["Name", "Age"]),
        ("resource.k8s.io", "deviceclasses", ["Name", "Age"]),
        ("resource.k8s.io", "resourceclaims", ["Name", "State", "Age"]),
        ("resource.k8s.io", "resourceslices", ["Name", "Node", "Driver", "Pool", "Age"]),
        ("resource.k8s.io", "devicetaintrules", ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]),
        ("scheduling.k8s.io", "podgroups", ["Name", "Policy", "Workload", "Status", "Age"]),
    ],
)
def test_columns_of_device_kinds(group, plural, names):
    found = columns(BY_NAME[group, plural].type)
    for column in found:
        column.pop("description")
    assert found == definitions(*names)


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        (None, "Pending"),
        ({"type": "GangScheduling", "status": "False", "reason": "ScheduledAsBasic"}, "Pending"),
        ({"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}, "Scheduled"),
        ({"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}, "Unschedulable"),
    ],
)
def test_the_status_of_a_group_is_whether_its_pods_were_scheduled(condition, status):
    tree = {
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"schedulingPolicy": {"basic": {}}},
        "status": {"conditions": [condition] if condition else []},
    }
    group = make("scheduling.k8s.io", "podgroups", tree)
    answer = json.loads(msgspec.json.encode(table(BY_NAME["scheduling.k8s.io", "podgroups"], [group], now=NOW)))
    assert answer["rows"][0]["cells"][3] == status


def test_a_table_of_slices_with_metadata_in_the_rows():
    answer = json.loads(msgspec.json.encode(table(BY_NAME["resource.k8s.io", "resourceslices"], [SLICE], now=NOW)))
    assert answer["kind"] == "Table"
    assert answer["apiVersion"] == "meta.k8s.io/v1"
    assert answer["metadata"] == {}
    assert answer["rows"] == [
        {
            "cells": ["slice", "worker-1", "gpu.example.com", "p", "0s"],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "slice", "creationTimestamp": CREATED},
            },
        }
    ]


def test_a_table_of_groups():
    assert shown(GROUP) == ["g", "Basic", "<none>", "Pending", "0s"]


def test_rows_carry_what_was_asked_for():
    slices = BY_NAME["resource.k8s.io", "resourceslices"]
    raw = msgspec.Raw(b'{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1beta1"}')

    def carried(**options):
        return json.loads(msgspec.json.encode(table(slices, [SLICE], now=NOW, **options)))["rows"][0]["object"]

    assert carried(include="None") is None
    assert carried(include="Object")["spec"]["driver"] == "gpu.example.com"
    assert carried(include="Object", full=[raw])["apiVersion"] == "resource.k8s.io/v1beta1"
    assert table(slices, [SLICE], now=NOW, header=False)["columnDefinitions"] is None
    assert table(slices, [], now=NOW, metadata={"resourceVersion": "7"})["metadata"] == {"resourceVersion": "7"}


def test_include_policy_names_what_is_allowed():
    assert include_policy("") == "Metadata"
    assert include_policy("None") == "None"
    with pytest.raises(BadRequest, match="includeObject: Invalid value: must be one of Metadata, None, Object"):
        include_policy("Everything")


def test_partial_lists_hold_metadata_only():
    answer = json.loads(msgspec.json.encode(partial_list([SLICE], {"resourceVersion": "5"})))
    assert answer["kind"] == "PartialObjectMetadataList"
    assert answer["metadata"] == {"resourceVersion": "5"}
    assert answer["items"][0]["metadata"]["name"] == "slice"
    assert "spec" not in answer["items"][0]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.qualified)
def test_every_kind_prints_an_empty_object_with_a_cell_for_each_column(resource):
    obj = resource.type()
    if hasattr(obj, "metadata"):
        assert len(cells(obj, NOW)) == len(columns(resource.type))


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        ({}, "pending"),
        ({"status": {"allocation": {}}}, "allocated"),
        ({"status": {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}, "allocated,reserved"),
        ({"metadata": {"name": "c", "deletionTimestamp": CREATED}, "status": {"allocation": {}}}, "deleted,allocated"),
        ({"metadata": {"name": "c", "deletionTimestamp": CREATED}}, "deleted"),
    ],
)  # fmt: skip
def test_the_state_of_a_claim(claim, state):
    obj = make("resource.k8s.io", "resourceclaims", {"metadata": {"name": "c"}, "spec": {}, **claim})
    assert shown(obj) == ["c", state, "0s"]


def pool_status(**status):
    tree = {"metadata": {"name": "r"}, "spec": {"driver": "d"}}
    if status:
        tree["status"] = status
    return make("resource.k8s.io", "resourcepoolstatusrequests", tree)


def test_pool_status_sums_pools_and_says_when_it_is_truncated():
    complete = [{"type": "Complete", "status": "True", "reason": "x", "message": "", "lastTransitionTime": CREATED}]
    pools = [
        {"driver": "d", "poolName": "a", "generation": 1, "totalDevices": 4, "allocatedDevices": 3, "availableDevices": 1},
        {"driver": "d", "poolName": "b", "generation": 1, "validationError": "bad"},
    ]  # fmt: skip
    assert shown(pool_status()) == ["r", "d", 0, 0, 0, 0, 0, 0, "Pending", "<none>"]
    done = pool_status(conditions=complete, pools=pools, poolCount=2)
    assert shown(done, NOW + 60) == ["r", "d", 4, 1, 3, 0, 1, 2, "Complete", "60s"]
    cut = pool_status(conditions=complete, pools=pools, poolCount=9)
    assert shown(cut)[-2] == "Complete (2/9 pools)"
    failed = pool_status(conditions=[complete[0] | {"status": "False"}])
    assert shown(failed)[-2] == "Failed"


def test_nodes_tell_state_roles_and_version():
    node = make(
        "",
        "nodes",
        {
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "a"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Linux"},
            },
        },
    )  # fmt: skip
    assert shown(node) == [
        "n", "Ready,SchedulingDisabled", "a,control-plane", "0s", "v1.37.0", "10.0.0.1", "<none>", "Linux", "<unknown>",
        "<unknown>",
    ]  # fmt: skip
    assert shown(make("", "nodes", {"metadata": {"name": "n"}}), width=3) == ["n", "Unknown", "<none>"]


def test_services_tell_addresses_and_ports():
    spec = {
        "type": "LoadBalancer",
        "clusterIPs": ["10.0.0.5"],
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        "selector": {"b": "2", "a": "1"},
    }
    service = make("", "services", {"metadata": {"name": "s"}, "spec": spec})
    assert shown(service) == ["s", "LoadBalancer", "10.0.0.5", "<pending>", "80:30080/TCP,53/UDP", "0s", "a=1,b=2"]


def test_events_tell_when_what_and_about_whom():
    event = make(
        "",
        "events",
        {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "eventTime": CREATED,
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": " no devices\n",
            "reportingComponent": "scheduler",
            "series": {"count": 3, "lastObservedTime": "2027-01-15T08:01:00.000000Z"},
        },
    )
    assert shown(event, NOW + 120) == [
        "60s", "Warning", "FailedScheduling", "pod/p", "", "scheduler", "no devices", "2m", 3, "e",
    ]  # fmt: skip


def test_jobs_and_deployments_count():
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    job = make(
        "batch",
        "jobs",
        {
            "metadata": {"name": "j"},
            "spec": {"completions": 3, "template": template},
            "status": {"succeeded": 1, "startTime": CREATED, "active": 1},
        },
    )
    assert shown(job, NOW + 5) == ["j", "Running", "1/3", "5s", "5s", "c", "i", "<none>"]
    chosen = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    }
    deployment = make(
        "apps",
        "deployments",
        {
            "metadata": {"name": "d"},
            "spec": {"replicas": 2, "selector": chosen, "template": template},
            "status": {"readyReplicas": 1, "updatedReplicas": 2},
        },
    )
    assert shown(deployment) == ["d", "1/2", 2, 0, "0s", "c", "i", "a=b,c notin (x,y),!d"]
    controller = make(
        "",
        "replicationcontrollers",
        {
            "metadata": {"name": "rc"},
            "spec": {"replicas": 2, "selector": {"b": "c", "a": "b"}, "template": template},
            "status": {"replicas": 2, "readyReplicas": 1},
        },
    )
    assert shown(controller) == ["rc", 2, 2, 1, "0s", "c", "i", "a=b,b=c"]


def test_quota_and_bindings():
    quota = make(
        "",
        "resourcequotas",
        {
            "metadata": {"name": "q"},
            "status": {"hard": {"pods": "3", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1"}},
        },
    )
    assert shown(quota) == ["q", "cpu: 0/1, pods: 1/3", "limits.cpu: 0/2", "0s"]
    binding = make(
        "rbac.authorization.k8s.io",
        "rolebindings",
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        },
    )
    assert shown(binding) == ["b", "Role/r", "0s", "u", "", "n/s"]
