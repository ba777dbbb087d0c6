"""How kubectl explains and checks custom kinds by the schemas that the server publishes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.kubectl.conftest import Kubectl

PRESERVES = "x-kubernetes-preserve-unknown-fields"
BAR = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "Name of Bar."},
        "bazs": {"type": "array", "description": "List of Bazs.", "items": {"type": "string"}},
    },
}
SPEC = {
    "type": "object",
    "description": "Specification of Foo",
    "properties": {"bars": {"type": "array", "description": "List of Bars and their specs.", "items": BAR}},
}
FOO = {"type": "object", "description": "Foo CRD for Testing", "properties": {"spec": SPEC}}


def define(kubectl: Kubectl, group: str, schema: Any) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"{group}s", "singular": group, "kind": group.capitalize()}
    spec = {"group": f"{group}.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    tree = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    name = f"{group}s.{group}.example.com"
    kubectl("create", "-f", "-", stdin=json.dumps({**tree, "metadata": {"name": name}}))
    kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")


def custom(group: str, **members: Any) -> str:
    head = {"apiVersion": f"{group}.example.com/v1", "kind": group.capitalize(), "metadata": {"name": "one"}}
    return json.dumps({**head, **members})


def test_a_kind_with_a_schema_is_checked_and_explained(kubectl: Kubectl) -> None:
    kubectl.needs(27, "explain by version 3")
    define(kubectl, "foo", FOO)
    for verb in ("create", "apply"):
        kubectl(verb, "-f", "-", stdin=custom("foo", spec={"bars": [{"name": "b"}]}))
        kubectl("delete", "foos", "one")
        refused = kubectl(verb, "-f", "-", stdin=custom("foo", spec={"foo": True}), fails=True)
        assert 'unknown field "spec.foo"' in refused
        refused = kubectl(verb, "-f", "-", stdin=custom("foo", spec={"bars": [{"bazs": []}]}), fails=True)
        assert "spec.bars[0].name: Required value" in refused
    for path, pattern in {
        "foos": r"DESCRIPTION:.*Foo CRD for Testing.*FIELDS:.*apiVersion.*<string>.*APIVersion defines.*<Object>.*Specification of Foo",
        "foos.metadata": r"DESCRIPTION:.*Standard object's metadata.*creationTimestamp.*<string>.*CreationTimestamp is a timestamp",
        "foos.spec": r"DESCRIPTION:.*Specification of Foo.*FIELDS:.*bars.*<\[\]Object>.*List of Bars and their specs",
        "foos.spec.bars": r"FIELD:.*bars.*<\[\]Object>.*bazs.*<\[\]string>.*List of Bazs.*name.*<string>.*Name of Bar",
    }.items():
        assert re.search(pattern, kubectl("explain", path), re.DOTALL), path
    assert 'field "bars2" does not exist' in kubectl("explain", "foos.spec.bars2", fails=True)


@pytest.mark.parametrize(
    ("group", "schema", "members", "explained"),
    [
        ("empty", {PRESERVES: True}, {"a": {"b": [{"c": "d"}]}}, "DESCRIPTION:.*<empty>"),
        ("root", {PRESERVES: True, "properties": {"spec": SPEC}}, {"a": {"b": [{"c": "d"}]}}, "KIND:.*Root"),
        (
            "nested",
            {"description": "open within", "properties": {"spec": {"type": "object", PRESERVES: True}}},
            {"spec": {"a": None, "b": [{"c": "d"}]}},
            "DESCRIPTION:.*open within",
        ),
    ],
)
def test_a_kind_that_takes_anything_is_not_checked(
    kubectl: Kubectl, group: str, schema: Any, members: Any, explained: str
) -> None:
    kubectl.needs(27, "explain by version 3")
    define(kubectl, group, {"type": "object", **schema})
    for verb in ("create", "apply"):
        kubectl(verb, "-f", "-", stdin=custom(group, **members))
        kubectl("delete", f"{group}s", "one")
    assert re.search(explained, kubectl("explain", f"{group}s"), re.DOTALL)
