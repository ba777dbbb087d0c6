"""Tables as recorded answers of Kubernetes v1.37 show them, and what rows carry."""

import json

import msgspec
import pytest

from dray.api.errors import BadRequest
from dray.api.resources import BY_NAME
from dray.api.types.resource import ResourceClaim
from dray.apiserver.wire.tables import columns, head, include_policy, partial_list, printer, row
from tests.apiserver.asking import HttpAsker, Tree
from tests.apiserver.wire.tables.printing import cells

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


SLICES = printer(BY_NAME["resource.k8s.io", "resourceslices"])
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
        ("resource.k8s.io", "resourceslices", ["Name", "Node", "Driver", "Pool", "Age"]),
        ("resource.k8s.io", "devicetaintrules", ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]),
        ("scheduling.k8s.io", "podgroups", ["Name", "Policy", "Workload", "Status", "Age"]),
    ],
)
def test_columns_of_device_kinds(group, plural, names):
    found = columns(printer(BY_NAME[group, plural]))
    for column in found:
        column.pop("description")
    assert found == definitions(*names)


def test_claims_show_their_devices_and_node_when_there_is_room() -> None:
    found = printer(BY_NAME["resource.k8s.io", "resourceclaims"])
    assert found is not None
    assert [(c.name, c.priority) for c in found.columns] == [
        ("Name", 0),
        ("State", 0),
        ("Age", 0),
        ("Devices", 1),
        ("Node", 1),
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    results = [{"request": "r", "driver": "gpu", "pool": "node-1", "device": d} for d in ("a", "b")]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    for status, expected in (
        ({"allocation": allocation}, ["gpu/node-1/a,gpu/node-1/b", "node-1"]),
        ({"allocation": {"devices": {"results": results[:1]}}}, ["gpu/node-1/a", "<none>"]),
        ({}, ["<none>", "<none>"]),
    ):
        claim = msgspec.convert({"metadata": {"name": "c"}, "status": status}, ResourceClaim)
        assert [*found.cells(claim, 0.0)][3:] == expected


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
    assert shown(group)[3] == status


def test_a_table_of_slices_with_metadata_in_the_rows():
    answer = head(SLICES, {"resourceVersion": "7"})
    assert answer["kind"] == "Table"
    assert answer["apiVersion"] == "meta.k8s.io/v1"
    assert answer["metadata"] == {"resourceVersion": "7"}
    assert json.loads(msgspec.json.encode(row(SLICES, SLICE, NOW))) == {
        "cells": ["slice", "worker-1", "gpu.example.com", "p", "0s"],
        "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": "slice", "creationTimestamp": CREATED},
        },
    }


def test_a_table_of_groups():
    assert shown(GROUP) == ["g", "Basic", "<none>", "Pending", "0s"]


def test_rows_carry_what_was_asked_for():
    raw = msgspec.Raw(b'{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1beta1"}')

    def carried(**options):
        return json.loads(msgspec.json.encode(row(SLICES, SLICE, NOW, **options)))["object"]

    assert carried(include="None") is None
    assert carried(include="Object")["spec"]["driver"] == "gpu.example.com"
    assert carried(include="Object", full=raw)["apiVersion"] == "resource.k8s.io/v1beta1"
    assert head(SLICES, {}, header=False)["columnDefinitions"] is None


def test_include_policy_names_what_is_allowed():
    assert include_policy("") == "Metadata"
    assert include_policy("None") == "None"
    with pytest.raises(BadRequest, match="includeObject: Invalid value: must be one of Metadata, None, Object"):
        include_policy("Everything")


def test_partial_lists_are_lists_of_metadata():
    answer = partial_list({"resourceVersion": "5"})
    assert answer["kind"] == "PartialObjectMetadataList"
    assert answer["metadata"] == {"resourceVersion": "5"}


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        (f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {"audiences": ["a"]}}),
    ],
)
async def test_what_has_no_metadata_is_not_shown_as_a_table(http: HttpAsker, path: str, body: Tree) -> None:
    await http("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    code, status = await http("POST", path, body, accept=TABLE)
    assert (code, status["reason"]) == (406, "NotAcceptable")
    assert status["message"].startswith("only the following media types are accepted: application/json,")
    assert "as=" not in status["message"]
    code, review = await http("POST", path, body, accept=f"{TABLE},application/json")
    assert code == 201
    assert review["kind"].endswith(("Review", "TokenRequest"))
