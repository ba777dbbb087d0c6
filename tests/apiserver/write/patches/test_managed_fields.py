"""Managed fields: who owns what after creates, updates and patches."""

import copy

import pytest

from dray.api.resources import BY_NAME
from dray.apiserver.write.patches import track_update
from dray.apiserver.write.patches.managed_fields import ANCIENT, MAX_UPDATERS
from tests import objects

PODS = BY_NAME["", "pods"]
CLAIMS = BY_NAME["resource.k8s.io", "resourceclaims"]
T1, T2, T3 = (f"2027-01-15T08:00:0{n}Z" for n in (1, 2, 3))


def stored_pod(**parts):
    return {**objects.pod(namespace="n", metadata={"uid": "1"}), "status": {}, **parts}


def track(old, new, managed=(), manager="kubectl", time=T1, resource=PODS, **options):
    before = copy.deepcopy((old, new, managed))
    entries = track_update(resource, old, new, managed, manager=manager, time=time, **options)
    assert (old, new, managed) == before, "an input was changed"
    return entries


def test_a_creator_owns_what_it_wrote_in_the_form_that_kubernetes_uses():
    tree = stored_pod(metadata={"name": "p", "labels": {"app": "x"}, "finalizers": ["a/b"]})
    tree["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "args": ["x"],
        "resources": {},
    }
    tree["spec"]["securityContext"] = {}
    assert track(None, tree) == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {".": {}, 'v:"a/b"': {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:name": {},
                            "f:image": {},
                            "f:args": {},
                            "f:resources": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:containerPort": {},
                                    "f:protocol": {},
                                },
                            },
                        }
                    },
                    "f:securityContext": {},
                },
            },
        }
    ]  # fmt: skip


def test_status_belongs_to_whoever_writes_the_subresource():
    old = stored_pod()
    entries = track(None, old)
    new = stored_pod(status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    entries = track(old, new, entries, "kubelet", T2, subresource="status")
    assert [e["manager"] for e in entries] == ["kubectl", "kubelet"]
    assert entries[1]["subresource"] == "status"
    assert entries[1]["fieldsV1"] == {
        "f:status": {
            "f:phase": {},
            "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
        }
    }


def test_what_somebody_changes_is_theirs_and_no_longer_the_others():
    old, new = stored_pod(), stored_pod(spec={"containers": [{"name": "c", "image": "other"}]})
    entries = track(old, new, track(None, old), "editor", T2)
    item = 'k:{"name":"c"}'
    assert entries[0]["fieldsV1"]["f:spec"]["f:containers"][item] == {".": {}, "f:name": {}}
    assert entries[1]["fieldsV1"] == {"f:spec": {"f:containers": {item: {"f:image": {}}}}}


def test_what_disappears_belongs_to_nobody():
    old = stored_pod(metadata={"name": "p", "labels": {"a": "1"}})
    entries = track(old, stored_pod(), track(None, old), "editor", T2)
    (entry,) = entries
    assert entry["manager"] == "kubectl"
    assert "f:metadata" not in entry["fieldsV1"]


def test_a_manager_that_loses_everything_loses_its_entry():
    old = stored_pod()
    labelled = stored_pod(metadata={"name": "p", "labels": {"a": "1"}})
    entries = track(old, labelled, track(None, old), "labeller", T2)
    assert [e["manager"] for e in entries] == ["kubectl", "labeller"]
    assert [e["manager"] for e in track(labelled, old, entries, "editor", T3)] == ["kubectl"]


def test_a_write_that_changes_nothing_changes_no_entry_and_no_time():
    tree = stored_pod()
    entries = track(None, tree)
    assert track(tree, copy.deepcopy(tree), entries, time=T2) == entries
    same = copy.deepcopy(tree)
    same["metadata"]["resourceVersion"] = "9"
    same["metadata"]["generation"] = 2
    assert track(tree, same, entries, time=T2) == entries


def test_the_same_manager_keeps_one_entry_a_version_and_subresource():
    old = stored_pod()
    entries = track(None, old)
    entries = track(old, stored_pod(metadata={"name": "p", "labels": {"a": "1"}}), entries, time=T2)
    assert [e["time"] for e in entries] == [T2]
    assert set(entries[0]["fieldsV1"]) == {"f:metadata", "f:spec"}


def test_entries_speak_the_version_that_the_client_wrote_in():
    """A v1beta1 request has its parts beside its name; v1 nests them."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    stored = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "labels": {"a": "1"}},
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    }
    (entry,) = track(None, stored, resource=CLAIMS, api_version="resource.k8s.io/v1beta1")
    assert entry["apiVersion"] == "resource.k8s.io/v1beta1"
    changed = copy.deepcopy(stored)
    changed["metadata"]["labels"]["a"] = "2"
    entries = track(stored, changed, [entry], "editor", T2, CLAIMS, api_version="resource.k8s.io/v1")
    assert [e["apiVersion"] for e in entries] == ["resource.k8s.io/v1beta1", "resource.k8s.io/v1"]
    assert "f:a" not in entries[0]["fieldsV1"]["f:metadata"]["f:labels"]
    assert entries[1]["fieldsV1"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


def test_entries_of_versions_that_are_gone_are_dropped():
    ghost = {"manager": "old", "operation": "Update", "apiVersion": "v0", "fieldsV1": {"f:spec": {}}}
    old = stored_pod()
    entries = track(old, stored_pod(metadata={"name": "p", "labels": {"a": "1"}}), [ghost], time=T2)
    assert [e["manager"] for e in entries] == ["kubectl"]


def test_the_oldest_of_many_updaters_share_an_entry():
    old, entries = stored_pod(), track(None, stored_pod(), time="2027-01-15T08:00:00Z")
    for number in range(15):
        labels = {f"l{n}": "x" for n in range(number + 1)}
        new = stored_pod(metadata={"name": "p", "labels": labels})
        entries = track(old, new, entries, f"m{number:02}", f"2027-01-15T08:01:{number:02}Z")
        old = new
    assert len(entries) == MAX_UPDATERS
    ancient = next(e for e in entries if e["manager"] == ANCIENT)
    assert {"f:l0", "f:l1"} <= set(ancient["fieldsV1"]["f:metadata"]["f:labels"])
    assert "f:spec" in ancient["fieldsV1"]
    owned = [key for e in entries for key in e["fieldsV1"].get("f:metadata", {}).get("f:labels", {}) if key != "."]
    assert sorted(owned) == sorted(f"f:l{n}" for n in range(15))


@pytest.mark.parametrize("value", ["text", 5, ["x"], None])
def test_parts_of_the_wrong_type_count_as_one(value):
    """Validation refuses them; ownership must not fall over them."""
    entries = track(stored_pod(), stored_pod(spec=value, metadata={"name": "p", "labels": value}))
    assert all(isinstance(e["fieldsV1"], dict) for e in entries)


def test_what_is_remembered_of_one_object_is_not_taken_for_another():
    def fields(**spec):
        (entry,) = track(None, stored_pod(spec={"containers": [{"name": "c", "image": "i"}], **spec}))
        return entry["fieldsV1"]["f:spec"]

    plain, hosted = fields(), fields(hostNetwork=True)
    assert plain == fields()
    assert plain == {key: value for key, value in hosted.items() if key != "f:hostNetwork"}
    assert "f:hostNetwork" in hosted
