"""Metadata of any object, tried on one kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.asking import Asking, faults

MAPS = Asking("", "ConfigMap")
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {"a": "b", "x.io/c": ""}, "annotations": {"UPPER": "x"}, "finalizers": ["x.io/y"]}, []),
        ({"name": ""}, [("metadata.name", "Required")]),
        ({"name": "A"}, [("metadata.name", "Invalid")]),
        ({"generateName": "web-"}, []),
        ({"generateName": "Web-"}, [("metadata.generateName", "Invalid")]),
        ({"namespace": "a.b"}, [("metadata.namespace", "Invalid")]),
        ({"labels": {"a": "b c"}}, [("metadata.labels", "Invalid")]),
        ({"labels": {"a/b/c": ""}}, [("metadata.labels", "Invalid")]),
        ({"annotations": {"a b": ""}}, [("metadata.annotations", "Invalid")]),
        ({"annotations": {"a": "x" * 262144}}, [("metadata.annotations", "TooLong")]),
        ({"ownerReferences": [OWNER]}, []),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "controller": True}]},
            [("metadata.ownerReferences", "Invalid")],
        ),
        ({"ownerReferences": [{**OWNER, "kind": "Event"}]}, [("metadata.ownerReferences[0]", "Invalid")]),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, [("metadata.finalizers", "Invalid")]),
        ({"finalizers": ["a b"]}, [("metadata.finalizers", "Invalid"), ("metadata.finalizers[0]", "Invalid")]),
    ],
)
def test_new_objects(metadata: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert faults(MAPS.create({"metadata": metadata})) == expected


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_identities_do_not_change(field: str) -> None:
    assert faults(MAPS.update({}, {"metadata": {field: "other"}})) == [(f"metadata.{field}", "Invalid")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"labels": {"a b": "c"}}, [("metadata.labels", "Invalid")]),
        ({"annotations": {"a b": "c"}}, [("metadata.annotations", "Invalid")]),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, [("metadata.ownerReferences[0].uid", "Required")]),
        ({"finalizers": ["noslash"]}, [("metadata.finalizers[0]", "Invalid")]),
    ],
)
def test_what_an_update_adds_is_checked(changed: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert faults(MAPS.update({}, {"metadata": changed})) == expected
    assert MAPS.update(MAPS.made({"metadata": changed}), {"metadata": changed}) == []


def test_a_second_controller_is_named_with_its_kind() -> None:
    owners = [{**OWNER, "name": name, "controller": True} for name in ("p", "q")]
    [error] = MAPS.create({"metadata": {"ownerReferences": owners}})
    assert error.detail.endswith('Found "true" in references for Pod/p and Pod/q')


def test_deleted_objects_get_no_new_finalizers() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/a"]}
    added = {**deleted, "finalizers": ["x.io/a", "x.io/b"]}
    [error] = MAPS.update({"metadata": deleted}, {"metadata": added})
    assert error.field == "metadata.finalizers"
    assert error.detail.endswith('found new finalizers []string{"x.io/b"}')
    assert MAPS.update({"metadata": deleted}, {"metadata": {**deleted, "finalizers": []}}) == []


def test_cluster_wide_objects_have_no_namespace() -> None:
    nodes = Asking("", "Node")
    assert faults(nodes.create({"metadata": {"namespace": "ns"}})) == [("metadata.namespace", "Forbidden")]
