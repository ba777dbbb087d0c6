"""Custom resources on a real server, over HTTP: from definition to deletion, schemas, rules, and hostile definitions."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.com/v1"
WIDGETS = f"{GROUP}/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys) as asker:
        yield asker


def definition(spec: Tree, plural: str = "widgets", kind: str = "Widget", **version: Any) -> Tree:
    root = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}  # fmt: skip
    one = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [one]},
    }  # fmt: skip


def widget(name: str = "w", **spec: Any) -> Tree:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def define(admin: HttpAsker, spec: Tree, **options: Any) -> None:
    await created(admin, DEFINITIONS, definition(spec, **options))
    await served(admin)


async def served(admin: HttpAsker, path: str = WIDGETS) -> None:
    async def is_served() -> bool:
        return (await admin.text(path))[0] == 200

    await eventually(is_served)


SIZE = {"type": "object", "properties": {"size": {"type": "integer"}, "tag": {"type": "string"}}}


async def test_a_definition_is_established_and_goes_with_its_objects(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    _, body = await admin("GET", f"{DEFINITIONS}/widgets.example.com")
    held = {c["type"]: (c["status"], c["reason"]) for c in body["status"]["conditions"]}
    assert held == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    await created(admin, WIDGETS, widget(size=1))
    assert (await admin("DELETE", f"{DEFINITIONS}/widgets.example.com"))[0] == 200

    async def gone() -> bool:
        return (await admin("GET", f"{DEFINITIONS}/widgets.example.com"))[0] == 404

    await eventually(gone)
    assert (await admin.text(WIDGETS))[0] == 404
    await define(admin, SIZE)
    assert (await admin("GET", WIDGETS))[1]["items"] == []


async def test_an_object_with_a_finalizer_keeps_its_definition(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    held = widget(size=1)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await created(admin, WIDGETS, held)
    await admin("DELETE", f"{DEFINITIONS}/widgets.example.com")
    code, body = await admin("POST", WIDGETS, widget("other"))
    assert (code, body["message"]) == (405, "create not allowed while custom resource definition is terminating")
    code, _ = await admin("PATCH", f"{WIDGETS}/w", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert code == 200

    async def gone() -> bool:
        return (await admin("GET", f"{DEFINITIONS}/widgets.example.com"))[0] == 404

    await eventually(gone)


@pytest.mark.parametrize("path", ["/apis", GROUP, "/openapi/v3", f"/openapi/v3{GROUP}", WIDGETS])
async def test_nothing_that_was_asked_for_keeps_a_definition_that_is_gone(admin: HttpAsker, path: str) -> None:
    await define(admin, SIZE)
    assert (await admin("GET", path))[0] == 200
    found = admin.running.definitions.find("example.com", "widgets")
    assert found is not None
    assert found.custom is not None
    kind = weakref.ref(found.custom)
    del found
    await admin("DELETE", f"{DEFINITIONS}/widgets.example.com")

    def is_let_go() -> bool:
        gc.collect()
        return kind() is None

    await eventually(is_let_go)

    async def is_gone() -> bool:
        return (await admin.text(GROUP))[0] == 404

    await eventually(is_gone)


async def test_names_that_are_taken_are_told(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    await created(admin, DEFINITIONS, definition(SIZE, plural="gadgets", kind="Widget"))

    async def told() -> bool:
        _, body = await admin("GET", f"{DEFINITIONS}/gadgets.example.com")
        held = {c["type"]: (c["status"], c["reason"], c["message"]) for c in body["status"]["conditions"] or ()}
        return held.get("NamesAccepted") == ("False", "KindConflict", '"WidgetList" is already in use') or held.get(
            "NamesAccepted"
        ) == ("False", "ListKindConflict", '"WidgetList" is already in use')

    await eventually(told)
    assert (await admin("GET", f"{GROUP}/namespaces/default/gadgets"))[0] == 404
    await admin("DELETE", f"{DEFINITIONS}/widgets.example.com")
    await served(admin, f"{GROUP}/namespaces/default/gadgets")


async def test_unknown_fields_are_pruned_and_told(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    body = await created(admin, WIDGETS, {**widget(size=1, color="red"), "extra": 1})
    assert (body["spec"], "extra" in body) == ({"size": 1}, False)
    code, body = await admin("POST", f"{WIDGETS}?fieldValidation=Strict", widget("strict", color="red"))
    assert code == 400
    assert 'strict decoding error: unknown field "spec.color"' in body["message"]


async def test_what_a_schema_preserves_stays_at_the_top_too(admin: HttpAsker) -> None:
    tree = definition(SIZE)
    tree["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    }
    await created(admin, DEFINITIONS, tree)
    await served(admin)
    sent = {**widget(), "class": [1, {"a": None}], "x-y": "z", "spec": {"deep": {"er": 1}}}
    await created(admin, WIDGETS, sent)
    code, body = await admin("POST", WIDGETS, {**widget("odd"), 'a"b': 1})
    assert (code, "in its name" in body["message"]) == (400, True)
    _, body = await admin("GET", f"{WIDGETS}/w")
    assert {name: body[name] for name in ("class", "x-y", "spec")} == {
        name: sent[name] for name in ("class", "x-y", "spec")
    }


RULED = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.low <= self.high", "messageExpression": "'low ' + string(self.low) + ' is above high'"}
    ],
    "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "kept": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "kept stays"}]},
        "ports": {
            "type": "array",
            "maxItems": 10,
            "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]},
        },
    },
}


async def test_rules_judge_values_and_changes(admin: HttpAsker) -> None:
    await define(admin, RULED)
    code, body = await admin("POST", WIDGETS, widget(low=3, high=2, ports=[1, -1]))
    assert code == 422
    causes = {cause["field"]: cause["message"] for cause in body["details"]["causes"]}
    assert causes == {"spec": "Invalid value: low 3 is above high", "spec.ports[1]": "Invalid value: -1: positive"}
    await created(admin, WIDGETS, widget(low=1, high=2, kept="a"))
    code, body = await admin("PATCH", f"{WIDGETS}/w", {"spec": {"kept": "b"}}, content_type=MERGE)
    assert (code, body["details"]["causes"]) == (
        422,
        [{"reason": "FieldValueInvalid", "message": 'Invalid value: "b": kept stays', "field": "spec.kept"}],
    )


async def test_columns_are_those_of_the_definition(admin: HttpAsker) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Tag", "type": "integer", "jsonPath": ".spec.tag"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    await define(admin, SIZE, additionalPrinterColumns=columns)
    status = {"conditions": [{"type": "Other", "status": "no"}, {"type": "Ready", "status": "True"}]}
    await created(admin, WIDGETS, {**widget(size=3, tag="t"), "status": status})
    _, table = await admin("GET", WIDGETS, accept=TABLE)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Tag", "Age"]
    assert table["rows"][0]["cells"][:4] == ["w", 3, "True", None]


async def test_apply_knows_lists_with_keys(admin: HttpAsker) -> None:
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
    }
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    await define(admin, {"type": "object", "properties": {"items": keyed}})
    for manager, name in (("one", "a"), ("two", "b")):
        tree = widget(items=[{"name": name, "v": 1}])
        code, body = await admin("PATCH", f"{WIDGETS}/w?fieldManager={manager}", tree, content_type=APPLY)
        assert code in (200, 201), body
    assert [item["name"] for item in body["spec"]["items"]] == ["a", "b"]
    code, body = await admin("PATCH", f"{WIDGETS}/w?fieldManager=one", widget(items=[]), content_type=APPLY)
    assert [item["name"] for item in body["spec"]["items"]] == ["b"]


async def test_objects_of_an_old_storage_version_are_read_in_the_new_one(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    await created(admin, WIDGETS, widget(size=1))
    _, tree = await admin("GET", f"{DEFINITIONS}/widgets.example.com")
    old = tree["spec"]["versions"][0]
    new = {**json.loads(json.dumps(old)), "name": "v2", "storage": True}
    new["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tag"]["default"] = "new"
    tree["spec"]["versions"] = [{**old, "storage": False}, new]
    code, body = await admin("PUT", f"{DEFINITIONS}/widgets.example.com", tree)
    assert code == 200, body
    assert body["status"]["storedVersions"] == ["v1", "v2"]
    await served(admin, "/apis/example.com/v2/namespaces/default/widgets")
    _, body = await admin("GET", "/apis/example.com/v2/namespaces/default/widgets/w")
    assert (body["apiVersion"], body["spec"]) == ("example.com/v2", {"size": 1, "tag": "new"})
    _, body = await admin("GET", WIDGETS)
    assert (body["items"][0]["apiVersion"], body["items"][0]["spec"]) == ("example.com/v1", {"size": 1})


async def test_a_watch_tells_of_custom_objects(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    async with admin.send("GET", f"{WIDGETS}?watch=true") as response:
        await created(admin, WIDGETS, widget(size=1))
        event = json.loads(await asyncio.wait_for(response.content.readline(), 10))
    assert (event["type"], event["object"]["kind"], event["object"]["spec"]) == ("ADDED", "Widget", {"size": 1})


async def test_documents_tell_of_custom_resources(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    _, index = await admin("GET", "/openapi/v3")
    assert "apis/example.com/v1" in index["paths"]
    _, document = await admin("GET", "/openapi/v3/apis/example.com/v1")
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}
    assert "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}" in document["paths"]
    _, old = await admin("GET", "/openapi/v2")
    assert "com.example.v1.Widget" in old["definitions"]


# Hostile definitions


def nested(levels: int) -> Tree:
    schema: Tree = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def ruled(rule: str, **place: Any) -> Tree:
    return {"type": "object", "properties": {"x": {**place, "x-kubernetes-validations": [{"rule": rule}]}}}


TEXTS = {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (nested(80), "must not be nested deeper than 64 levels"),
        ({"type": "object", "properties": {"a": {"$ref": "#/x", "type": "object"}}}, "$ref is not supported"),
        ({"type": "object", "properties": {"a": {}}}, "must not be empty for specified object fields"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "must be a valid regular expression"),
        ({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}, "must be of type integer"),
        (ruled("self.all(a, a.all(b, b.matches('^(x|y)+$')))", **TEXTS), "estimated rule cost exceeds budget by factor of more than 100x"),
        (ruled("self.nope", type="string"), "does not support field selection"),
        (ruled("self > ", type="integer"), "compilation failed"),
    ],
)  # fmt: skip
async def test_a_definition_that_cannot_be_is_refused_with_its_field(admin: HttpAsker, schema: Tree, text: str) -> None:
    code, body = await admin("POST", DEFINITIONS, definition(schema))
    assert code == 422, body
    assert any(text in cause["message"] for cause in body["details"]["causes"]), body["message"]
    assert all("openAPIV3Schema" in cause["field"] for cause in body["details"]["causes"])


async def test_names_of_built_in_resources_are_taken(admin: HttpAsker) -> None:
    tree = definition(SIZE, plural="resourceclaims", kind="ResourceClaim")
    tree["metadata"] = {
        "name": "resourceclaims.resource.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    }
    tree["spec"]["group"] = "resource.k8s.io"
    await created(admin, DEFINITIONS, tree)

    async def refused() -> bool:
        _, body = await admin("GET", f"{DEFINITIONS}/resourceclaims.resource.k8s.io")
        return any(c["type"] == "NamesAccepted" and c["status"] == "False" for c in body["status"]["conditions"] or ())

    await eventually(refused)
    assert (await admin("GET", "/apis/resource.k8s.io/v1/resourceclaims"))[0] == 200


async def test_a_protected_group_asks_for_approval(admin: HttpAsker) -> None:
    tree = definition(SIZE)
    tree["metadata"]["name"], tree["spec"]["group"] = "widgets.x.k8s.io", "x.k8s.io"
    code, body = await admin("POST", DEFINITIONS, tree)
    assert code == 422
    assert body["details"]["causes"][0]["field"] == "metadata.annotations[api-approved.kubernetes.io]"
