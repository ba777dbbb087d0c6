"""What definitions may say, and what bodies of custom objects must say, as Kubernetes refuses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.apiserver.custom.test_custom_resources import (
    DEFINITIONS,
    MERGE,
    SIZE,
    TABLE,
    WIDGETS,
    define,
    definition,
    widget,
)
from tests.waiting import eventually

TEXT = {"type": "string"}
LIST, KEYS, MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
TREE = "spec.validation.openAPIV3Schema"
ROOT = f"{TREE}.properties[spec]"
TOP = "TOP"  # the schema itself, not its spec


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys) as asker:
        yield asker


def keyed(item: Tree, *keys: str) -> Tree:
    return {"type": "array", LIST: "map", KEYS: list(keys), "items": item}


def member(**part: Any) -> Tree:
    return {"type": "object", "properties": {"a": part}}


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"type": "object", "properties": {"a": TEXT}, "anyOf": [{"properties": {"b": {"minLength": 1}}}]}, "Required", ".properties[b]"),
        (member(type="string", anyOf=[{"type": "string"}]), "Forbidden", ".properties[a].anyOf[0].type"),
        (member(type="string", anyOf=[{"default": "x"}]), "Forbidden", ".properties[a].anyOf[0].default"),
        (member(type="string", pattern="("), "Invalid", ".properties[a].pattern"),
        (member(**EMBEDDED), "Required", ".properties[a].properties"),
        (keyed({"type": "object", "properties": {"k": TEXT}}, "k"), "Required", ".items.properties[k].default"),
        (keyed({"type": "object", "required": ["k"], "properties": {"k": TEXT}}, "z"), "Invalid", f".{KEYS}"),
        (keyed({"type": "object", "required": ["k"], "properties": {"k": {"type": "object"}}}, "k"), "Invalid", ".items.properties[k].type"),
        (keyed(TEXT, "k"), "Invalid", ".items.type"),
        ({"type": "array", LIST: "set", "items": {"type": "object"}}, "Invalid", f".items.{MAP}"),
        ({"type": "array", LIST: "set", "items": {**TEXT, "nullable": True}}, "Forbidden", ".items.nullable"),
        ({"type": "array", KEYS: ["k"], "items": TEXT}, "Required", f".{LIST}"),
        (member(type="object", default={"z": 1}), "Invalid", ".properties[a].default"),
        ({"type": "object", "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": True}]}, "Invalid", ".x-kubernetes-validations[0].optionalOldSelf"),
        ({"type": "object", "x-kubernetes-validations": [{"rule": "true\n&& true"}]}, "Required", ".x-kubernetes-validations[0].message"),
    ],
)  # fmt: skip
async def test_a_schema_is_refused_at_its_place(admin: HttpAsker, spec: Tree, reason: str, field: str) -> None:
    code, body = await admin("POST", DEFINITIONS, definition(spec))
    assert (code, body["reason"]) == (422, "Invalid")
    assert (f"FieldValue{reason}", ROOT + field) in [
        (cause["reason"], cause["field"]) for cause in body["details"]["causes"]
    ]


def ruled(rule: str, **part: Any) -> Tree:
    return member(**part, **{RULES: [{"rule": rule}]})


async def test_all_that_is_wrong_with_a_schema_is_told(admin: HttpAsker) -> None:
    """Kubernetes tells these causes, each as often as it stands here."""
    rule, texts = f".properties[a].{RULES}[0].rule", {"type": "array", "items": TEXT}
    embedded = member(**EMBEDDED, properties={"metadata": {**EMBEDDED, PRESERVE: True}})
    labels = {"type": "object", "additionalProperties": {**TEXT, "default": "x"}}
    for spec, causes in [
        (ruled("self > 1", type="integer", default=0), {"Invalid": [".properties[a].default"]}),
        (ruled("self.all(x, self.all(y, x == y))", **texts), {"Forbidden": [rule, rule, TOP]}),
        ({"type": "object", "properties": {"a": {**TEXT, LIST: "set"}, "b": {**TEXT, RULES: [{"rule": "self"}]}}},
            {"Invalid": [".properties[a].type", f".properties[b].{RULES}[0].rule"]}),
        (embedded, {"Forbidden": [".properties[a].properties[metadata].x-kubernetes-embedded-resource"]}),
        (member(**EMBEDDED, properties={"metadata": {"type": "object", "properties": {"labels": labels}}}),
            {"Forbidden": [".properties[a].properties[metadata].properties[labels].additionalProperties.default"]}),
    ]:  # fmt: skip
        code, body = await admin("POST", DEFINITIONS, definition(spec))
        wanted = [(f"FieldValue{reason}", ROOT + field) for reason, fields in causes.items() for field in fields]
        found = [(cause["reason"], cause["field"]) for cause in body["details"]["causes"]]
        assert (code, sorted(found)) == (
            422,
            sorted((reason, field.replace(ROOT + TOP, TREE)) for reason, field in wanted),
        )


async def test_type_and_metadata_of_an_object_have_no_defaults(admin: HttpAsker) -> None:
    tree = definition(SIZE)
    named = {"type": "object", "properties": {"name": {**TEXT, "default": "x"}}}
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["metadata"] = named
    code, body = await admin("POST", DEFINITIONS, tree)
    field = f"{TREE}.properties[metadata].properties[name].default"
    assert (code, [cause["field"] for cause in body["details"]["causes"]]) == (422, [field])


async def test_what_is_known_of_a_definition_may_not_become_wrong(admin: HttpAsker) -> None:
    tree = await created(admin, DEFINITIONS, definition(SIZE))
    url = f"{DEFINITIONS}/{tree['metadata']['name']}"
    for spec, fields in [
        ({"preserveUnknownFields": True}, ["spec.preserveUnknownFields"]),
        ({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://u@/x?y#z"}, "conversionReviewVersions": ["v1"]}}},
            ["spec.conversion.webhookClientConfig.url"] * 5),
        ({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "c//d"}}, "conversionReviewVersions": ["v1"]}}},
            ["spec.conversion.webhookClientConfig.service.path"] * 3),
    ]:  # fmt: skip
        code, body = await admin("PATCH", url, {"spec": spec}, content_type=MERGE)
        assert (code, [cause["field"] for cause in body["details"]["causes"]]) == (422, fields)


@pytest.mark.parametrize(
    "spec",
    [
        ruled("type(self) == int ? self > 1 : self.endsWith('%')", **{"x-kubernetes-int-or-string": True, "maxLength": 9}),
        ruled("self > 1", type="integer", default=2),
        {"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]}}},
        {"type": "array", LIST: "set", "items": {"type": "object", MAP: "atomic"}},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        member(**EMBEDDED, **{PRESERVE: True}),
        member(type="string", default=None),
    ],
)  # fmt: skip
async def test_a_schema_that_is_structural_is_served(admin: HttpAsker, spec: Tree) -> None:
    await created(admin, DEFINITIONS, definition(spec))


@pytest.mark.parametrize(
    ("version", "field"),
    [
        ({"additionalPrinterColumns": [{"name": "X", "type": "string"}]}, "spec.additionalPrinterColumns[0].JSONPath"),
        (
            {"additionalPrinterColumns": [{"name": "X", "type": "string", "jsonPath": "spec.a"}]},
            "spec.additionalPrinterColumns[0].JSONPath",
        ),
        ({"subresources": {"scale": {}}}, "spec.subresources.scale.specReplicasPath"),
    ],
)
async def test_what_a_version_offers_is_checked(admin: HttpAsker, version: Tree, field: str) -> None:
    code, body = await admin("POST", DEFINITIONS, definition(SIZE, **version))
    assert (code, body["details"]["causes"][0]["field"]) == (422, field)


async def test_a_column_whose_path_means_nothing_gives_way_to_the_age(admin: HttpAsker) -> None:
    await define(admin, SIZE, additionalPrinterColumns=[{"name": "X", "type": "string", "jsonPath": ".spec.items[?(@"}])
    _, table = await admin("GET", WIDGETS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


async def test_a_custom_object_says_what_it_is(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    code, body = await admin("POST", WIDGETS, {"metadata": {"name": "w"}})
    assert (code, "Object 'Kind' is missing" in body["message"]) == (400, True)
    code, body = await admin("POST", WIDGETS, {**widget(size=1), "kind": "Gadget"})
    assert (code, body["details"]["kind"], body["details"]["causes"][0]["field"]) == (422, "Gadget", "kind")
    code, _ = await admin("DELETE", WIDGETS, {"propagationPolicy": "Background"})
    assert code == 200


async def test_a_strict_patch_is_refused_as_a_value_of_the_patch(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    await created(admin, WIDGETS, widget(size=1))
    code, body = await admin("PATCH", f"{WIDGETS}/w?fieldValidation=Strict", {"spec": {"zz": 1}}, content_type=MERGE)
    assert (code, body["details"]["causes"][0]["field"]) == (422, "patch")
    assert 'strict decoding error: unknown field "spec.zz"' in body["message"]


async def test_metadata_of_embedded_objects_is_that_of_objects(admin: HttpAsker) -> None:
    await define(admin, member(**EMBEDDED, **{PRESERVE: True}))
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "unknown": 1}, "free": 1}
    body = await created(admin, WIDGETS, widget(a=inner))
    assert body["spec"]["a"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "free": 1}
    code, _ = await admin("POST", WIDGETS, widget("x", a={**inner, "metadata": {"labels": {"a": 1}}}))
    assert code == 400


async def test_finalizers_of_custom_objects_may_be_called_anything_and_that_is_told(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    held = widget(size=1)
    held["metadata"]["finalizers"] = ["resources-finalizer.example.io"]
    async with admin.send("POST", WIDGETS, held) as response:
        told = response.headers.getall("warning", [])
    assert (response.status, len(told), "prefer a domain-qualified finalizer name" in told[0]) == (201, 1, True)
    async with admin.send("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, content_type=MERGE) as response:
        assert response.headers.getall("warning", []) == []
    code, body = await admin("POST", WIDGETS, {**held, "metadata": {"name": "x", "finalizers": ["a b"]}})
    assert (code, body["details"]["causes"][0]["field"]) == (422, "metadata.finalizers")


async def test_an_object_without_replicas_has_no_scale(admin: HttpAsker) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    await define(admin, SIZE, subresources={"scale": paths})
    await created(admin, WIDGETS, widget(tag="x"))
    code, body = await admin("GET", f"{WIDGETS}/w/scale")
    assert (code, 'the spec replicas field ".spec.size" does not exist' in body["message"]) == (500, True)
    assert (await admin("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}}, content_type=MERGE))[0] == 200
    assert (await admin("GET", f"{WIDGETS}/w/scale"))[1]["spec"] == {"replicas": 2}


async def test_patches_that_nobody_can_merge_are_refused_wherever_they_are_sent(admin: HttpAsker) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    await define(admin, SIZE, subresources={"scale": paths, "status": {}})
    await created(admin, WIDGETS, widget(size=1))
    for path in ("w", "w/status", "w/scale", "missing"):
        code, _ = await admin("PATCH", f"{WIDGETS}/{path}", {}, content_type="application/strategic-merge-patch+json")
        assert (path, code) == (path, 415)


async def test_an_update_of_what_is_not_there_says_so_first(admin: HttpAsker) -> None:
    await define(admin, SIZE)
    assert (await admin("PUT", f"{WIDGETS}/w", widget(size=1)))[0] == 404
    await created(admin, WIDGETS, widget(size=1))
    code, body = await admin("PUT", f"{WIDGETS}/w", widget(size=2))
    assert (code, body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


async def test_the_review_of_a_group_of_kubernetes_is_told_as_a_condition(admin: HttpAsker) -> None:
    name, mark = "widgets.devices.k8s.io", "api-approved.kubernetes.io"
    tree = definition(SIZE)
    tree["metadata"] = {"name": name, "annotations": {mark: "unapproved, for a test"}}
    tree["spec"]["group"] = "devices.k8s.io"
    await created(admin, DEFINITIONS, tree)

    async def told() -> tuple[str, str, str] | None:
        _, body = await admin("GET", f"{DEFINITIONS}/{name}")
        found = {c["type"]: (c["status"], c["reason"], c["message"]) for c in body["status"]["conditions"] or ()}
        return found.get("KubernetesAPIApprovalPolicyConformant")

    async def says(*wanted: str) -> None:
        async def is_told() -> bool:
            return await told() == wanted

        await eventually(is_told)

    await says("False", "UnapprovedAnnotation", 'not approved: "unapproved, for a test"')
    url = "https://example.com/review"
    code, _ = await admin(
        "PATCH", f"{DEFINITIONS}/{name}", {"metadata": {"annotations": {mark: url}}}, content_type=MERGE
    )
    assert code == 200
    await says("True", "ApprovedAnnotation", f"approved in {url}")
    code, _ = await admin(
        "PATCH", f"{DEFINITIONS}/{name}", {"metadata": {"annotations": {mark: "x"}}}, content_type=MERGE
    )
    assert code == 422
