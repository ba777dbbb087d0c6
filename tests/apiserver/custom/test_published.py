"""What OpenAPI documents say of custom kinds, over HTTP, while their definitions come, change and go."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dray.api.wire import Tree
from tests.apiserver.asking import HttpAsker, created
from tests.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH = "application/json-patch+json"
PRESERVES = "x-kubernetes-preserve-unknown-fields"
ADDED = ("apiVersion", "kind", "metadata")
GVK = "x-kubernetes-group-version-kind"

FOO: Tree = {
    "description": "Foo CRD for Testing",
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "Specification of Foo",
            "properties": {
                "bars": {
                    "type": "array",
                    "description": "List of Bars",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "description": "Name of Bar"},
                            "feeling": {"type": "string", "enum": ["Great", "Down"]},
                            "bazs": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                }
            },
        }
    },
}
WALDO: Tree = {"description": "Waldo CRD for Testing", "type": "object", "properties": {"status": {"type": "object"}}}


def definition(group: str, kind: str, schema: Tree, *versions: str) -> Tree:
    plural = f"{kind.lower()}s"
    listed = [
        {"name": name, "served": True, "storage": name == versions[0], "schema": {"openAPIV3Schema": schema}}
        for name in versions
    ]
    spec = {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": listed}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


async def old(http: HttpAsker) -> Tree:
    return (await http("GET", "/openapi/v2"))[1]["definitions"]  # type: ignore[no-any-return]


async def published(http: HttpAsker, name: str) -> Any:
    """A schema in version 2, without what every kind has."""

    async def found() -> Any:
        return (await old(http)).get(name)

    schema = copy.deepcopy(await eventually(found))
    assert schema.pop(GVK)
    for member in ADDED:
        schema.get("properties", {}).pop(member, None)
    return {key: value for key, value in schema.items() if value != {}}


async def gone(http: HttpAsker, name: str) -> None:
    async def is_gone() -> bool:
        return name not in await old(http)

    await eventually(is_gone)


async def test_a_schema_is_published_as_it_was_given(http: HttpAsker) -> None:
    await created(http, DEFINITIONS, definition("a.example.com", "Foo", FOO, "v1"))
    await created(http, DEFINITIONS, definition("b.example.com", "Waldo", WALDO, "v1beta1"))
    assert await published(http, "com.example.a.v1.Foo") == FOO
    assert await published(http, "com.example.b.v1beta1.Waldo") == WALDO
    await http("DELETE", f"{DEFINITIONS}/foos.a.example.com")
    await gone(http, "com.example.a.v1.Foo")
    assert await published(http, "com.example.b.v1beta1.Waldo") == WALDO


async def test_kinds_and_versions_of_one_group_stand_side_by_side(http: HttpAsker) -> None:
    await created(http, DEFINITIONS, definition("c.example.com", "Foo", FOO, "v4", "v6"))
    await created(http, DEFINITIONS, definition("c.example.com", "Waldo", WALDO, "v5", "v6"))
    for version in ("v4", "v6"):
        assert await published(http, f"com.example.c.{version}.Foo") == FOO
    for version in ("v5", "v6"):
        assert await published(http, f"com.example.c.{version}.Waldo") == WALDO


async def test_a_version_that_is_renamed_or_not_served_any_more_leaves(http: HttpAsker) -> None:
    await created(http, DEFINITIONS, definition("d.example.com", "Foo", FOO, "v2", "v3"))
    assert await published(http, "com.example.d.v3.Foo") == FOO
    path = f"{DEFINITIONS}/foos.d.example.com"
    rename = [
        {"op": "test", "path": "/spec/versions/1/name", "value": "v3"},
        {"op": "replace", "path": "/spec/versions/1/name", "value": "v4"},
    ]
    assert (await http("PATCH", path, rename, content_type=JSON_PATCH))[0] == 200
    assert await published(http, "com.example.d.v4.Foo") == FOO
    await gone(http, "com.example.d.v3.Foo")
    withdraw = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    assert (await http("PATCH", path, withdraw, content_type=JSON_PATCH))[0] == 200
    await gone(http, "com.example.d.v4.Foo")
    assert await published(http, "com.example.d.v2.Foo") == FOO


@pytest.mark.parametrize("more", [{}, {"properties": {"spec": {"type": "object"}}, "description": "d"}])
async def test_version_2_says_nothing_of_a_kind_that_takes_anything(http: HttpAsker, more: Tree) -> None:
    """Old kubectl would refuse the members that are not declared."""
    await created(
        http, DEFINITIONS, definition("e.example.com", "Any", {"type": "object", PRESERVES: True, **more}, "v1")
    )
    assert await published(http, "com.example.e.v1.Any") == {"type": "object"}
    assert "properties" not in (await old(http))["com.example.e.v1.Any"]
    _, document = await http("GET", "/openapi/v3/apis/e.example.com/v1")
    schema = document["components"]["schemas"]["com.example.e.v1.Any"]
    assert set(ADDED) <= set(schema["properties"])
    assert schema[PRESERVES] is True


async def test_version_2_leaves_out_what_it_has_no_words_for(http: HttpAsker) -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "required": ["maybe", "spec"],
        "properties": {
            "maybe": {"type": "object", "nullable": True, "properties": {"a": text}},
            "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, text]},
            "spec": {"type": "object", PRESERVES: True, "description": "open", "properties": {"a": text}},
        },
    }
    await created(http, DEFINITIONS, definition("f.example.com", "Loose", schema, "v1"))
    assert await published(http, "com.example.f.v1.Loose") == {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "maybe": {},
            "port": {"x-kubernetes-int-or-string": True},
            "spec": {"type": "object", PRESERVES: True, "description": "open"},
        },
    }


async def test_an_object_within_an_object_has_kind_and_metadata(http: HttpAsker) -> None:
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    open_ = {"type": "object", "x-kubernetes-embedded-resource": True, PRESERVES: True}
    schema = {"type": "object", "properties": {"inner": inner, "open": open_}}
    await created(http, DEFINITIONS, definition("g.example.com", "Outer", schema, "v1"))
    found = (await published(http, "com.example.g.v1.Outer"))["properties"]
    assert set(found["inner"]["properties"]) == {*ADDED, "spec"}
    assert found["inner"]["required"] == ["kind", "apiVersion"]
    assert found["open"] == open_
    _, document = await http("GET", "/openapi/v3/apis/g.example.com/v1")
    shown = document["components"]["schemas"]["com.example.g.v1.Outer"]["properties"]
    assert set(shown["open"]["properties"]) == set(ADDED)
