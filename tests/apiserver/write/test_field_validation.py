"""Unknown and repeated fields, over HTTP: refused, told in warnings or ignored, as `fieldValidation` says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apiserver.asking import HttpAsker, created
from tests.waiting import eventually

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOXUS = "/apis/fields.example.com/v1/noxus"
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

DEPLOYMENT = """{
  "metadata": {"name": "d", "unknownMeta": "x"},
  "spec": {
    "paused": true,
    "unknown": {"twice": 1, "twice": 2},
    "unknown": "again",
    "paused": false,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
      "metadata": {"labels": {"a": "b"}},
      "spec": {"containers": [{"name": "c", "image": "i", "odd": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}
    }
  }
}"""
TYPED = [
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.unknown"',
    'duplicate field "spec.paused"',
    'unknown field "spec.template.spec.containers[0].odd"',
    'duplicate field "spec.template.spec.containers[0].imagePullPolicy"',
]
YAML = """
metadata: {name: d}
spec:
  zebra: 1
  paused: true
  paused: false
  extra: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i}]}
"""
SPEC = {
    "type": "object",
    "properties": {
        "foo": {"type": "string"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}},
        },
    },
}


def clean(name: str = "d") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}


async def define(http: HttpAsker) -> None:
    root = {"type": "object", "properties": {"spec": SPEC}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    names = {"plural": "noxus", "kind": "Noxu"}
    spec = {"group": "fields.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    await created(http, DEFINITIONS, {"metadata": {"name": "noxus.fields.example.com"}, "spec": spec})

    async def is_served() -> bool:
        return (await http.text(NOXUS))[0] == 200

    await eventually(is_served)


async def warned(http: HttpAsker, method: str, path: str, body: Any, **headers: str) -> tuple[int, list[str]]:
    """The code of an answer, and its warnings."""
    async with http.send(method, path, body, **{"content_type": JSON, **headers}) as response:
        texts = [text.partition(" - ")[2] for text in response.headers.getall("Warning", [])]
        return response.status, [json.loads(text) for text in texts]


async def test_a_typed_object_is_told_all_at_once_in_the_order_of_its_body(http: HttpAsker) -> None:
    code, status = await http("POST", f"{DEPLOYMENTS}?fieldValidation=Strict", DEPLOYMENT, content_type=JSON)
    assert code == 400
    assert status["message"].endswith(f": strict decoding error: {', '.join(TYPED)}")
    assert await warned(http, "POST", f"{DEPLOYMENTS}?fieldValidation=Warn&dryRun=All", DEPLOYMENT) == (201, TYPED)
    assert await warned(http, "POST", f"{DEPLOYMENTS}?fieldValidation=Ignore", DEPLOYMENT) == (201, [])
    code, found = await http("GET", f"{DEPLOYMENTS}/d")
    assert "paused" not in found["spec"]
    assert found["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Never"


async def test_a_pod_like_one_before_it_is_told_what_it_says_twice(http: HttpAsker) -> None:
    body = '{"metadata": {"name": "%s"}, "spec": {"containers": [{"name": "c", "image": "i"%s}]}}'
    pods, twice = "/api/v1/namespaces/default/pods", 'duplicate field "spec.containers[0].image"'
    await http("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await http("POST", pods, body % ("a", ""), content_type=JSON))[0] == 201
    assert await warned(http, "POST", pods, body % ("b", ', "image": "i"')) == (201, [twice])


async def test_yaml_is_told_by_its_lines(http: HttpAsker) -> None:
    code, status = await http("POST", f"{DEPLOYMENTS}?fieldValidation=Strict", YAML, content_type="application/yaml")
    assert code == 400
    line = 'line 6: key "paused" already set in map'
    unknown = ['unknown field "spec.extra"', 'unknown field "spec.zebra"']
    assert status["message"].endswith(f"strict decoding error: yaml: unmarshal errors:\n  {line}, {', '.join(unknown)}")
    told = await warned(http, "POST", DEPLOYMENTS, YAML, content_type="application/yaml")
    assert told == (201, [line, *unknown])


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_a_patch_is_told_first_what_it_says_twice(http: HttpAsker, kind: str) -> None:
    await created(http, DEPLOYMENTS, clean())
    patch = '{"spec": {"zebra": 1, "paused": true, "paused": false, "extra": 2}}'
    all_ = ['duplicate field "spec.paused"', 'unknown field "spec.extra"', 'unknown field "spec.zebra"']
    code, status = await http("PATCH", f"{DEPLOYMENTS}/d?fieldValidation=Strict", patch, content_type=kind)
    assert code == 422
    assert status["message"].endswith(f"strict decoding error: {', '.join(all_)}")
    assert await warned(http, "PATCH", f"{DEPLOYMENTS}/d", patch, content_type=kind) == (200, all_)
    twice = '{"spec": {"paused": true, "paused": false}}'
    code, status = await http("PATCH", f"{DEPLOYMENTS}/d?fieldValidation=Strict", twice, content_type=kind)
    assert (code, status["message"].endswith(f"strict decoding error: {all_[0]}")) == (422, True)


async def test_the_steps_of_a_json_patch_are_told_apart_from_the_object(http: HttpAsker) -> None:
    await created(http, DEPLOYMENTS, clean())
    patch = '[{"op": "add", "path": "/spec/zebra", "path": "/spec/extra", "value": 1}]'
    code, status = await http("PATCH", f"{DEPLOYMENTS}/d?fieldValidation=Strict", patch, content_type=JSON_PATCH)
    assert code == 422
    assert status["message"].endswith(
        'strict decoding error: json patch duplicate field "[0].path", unknown field "spec.extra"'
    )


async def test_a_custom_object_is_told_first_what_it_says_twice(http: HttpAsker) -> None:
    await define(http)
    body = """{"apiVersion": "fields.example.com/v1", "kind": "Noxu",
        "metadata": {"name": "n", "unknownMeta": 1},
        "spec": {"zebra": 1, "foo": "a", "foo": "b", "extra": 1, "extra": 2, "open": {"x": 1, "x": 2},
        "template": {"apiVersion": "v1", "kind": "Sub", "metadata": {"name": "s", "unknownSubMeta": 1}}}}"""
    all_ = [
        *('duplicate field "spec.foo"', 'duplicate field "spec.extra"', 'duplicate field "spec.open.x"'),
        *('unknown field "metadata.unknownMeta"', 'unknown field "spec.extra"', 'unknown field "spec.zebra"'),
        'unknown field "spec.template.metadata.unknownSubMeta"',
    ]
    code, status = await http("POST", f"{NOXUS}?fieldValidation=Strict", body, content_type=JSON)
    assert code == 400
    assert status["message"].endswith(f"strict decoding error: {', '.join(all_)}")
    assert await warned(http, "POST", NOXUS, body) == (201, all_)


async def test_what_is_applied_is_told_by_its_lines(http: HttpAsker) -> None:
    await define(http)
    body = "\napiVersion: fields.example.com/v1\nkind: Noxu\nmetadata: {name: n}\nspec:\n  foo: a\n  foo: b\n"
    path = f"{NOXUS}/n?fieldManager=m&fieldValidation="
    code, status = await http("PATCH", f"{path}Strict", body, content_type=APPLY)
    line = 'line 7: key "foo" already set in map'
    assert (code, status["message"]) == (
        400,
        f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}",
    )
    assert await warned(http, "PATCH", f"{path}Warn", body, content_type=APPLY) == (201, [line])
    assert await warned(http, "PATCH", f"{path}Ignore", body, content_type=APPLY) == (200, [])


@pytest.mark.parametrize(
    ("metadata", "spec", "path"),
    [
        ("name: n, unknownMeta: 1", "foo: a", ".metadata.unknownMeta"),
        ("name: n", "template: {apiVersion: v1, kind: Sub, metadata: {odd: 1}}", ".spec.template.metadata.odd"),
        ("name: n}, odd: {", "foo: a", ".odd"),
    ],
)
async def test_what_is_applied_may_only_have_fields_of_the_schema(
    http: HttpAsker, metadata: str, spec: str, path: str
) -> None:
    await define(http)
    body = f"{{apiVersion: fields.example.com/v1, kind: Noxu, metadata: {{{metadata}}}, spec: {{{spec}}}}}"
    code, status = await http("PATCH", f"{NOXUS}/n?fieldManager=m&fieldValidation=Strict", body, content_type=APPLY)
    assert code == 400
    assert f"{path}: field not declared in schema" in status["message"]


async def test_a_review_is_told_what_it_says_twice(http: HttpAsker) -> None:
    path, twice = "/apis/authentication.k8s.io/v1/tokenreviews", '{"spec": {"token": "a", "token": "b"}}'
    code, status = await http("POST", f"{path}?fieldValidation=Strict", twice, content_type=JSON)
    assert (code, status["message"].endswith('strict decoding error: duplicate field "spec.token"')) == (400, True)
    assert await warned(http, "POST", path, twice) == (201, ['duplicate field "spec.token"'])
