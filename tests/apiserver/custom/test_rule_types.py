"""Rules of custom resources as Kubernetes accepts them: names of fields, and how large values are estimated to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/rules.example.com/v1/namespaces/default/things"
TEXT = {"type": "string"}


@pytest.fixture
async def admin(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HttpAsker]:
    async with serving(Keys.open(tmp_path_factory.mktemp("keys"))) as asker:
        yield asker


def definition(spec: Tree, *rules: str, **root: Any) -> Tree:
    whole = {**spec, "type": "object", "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    schema = {"type": "object", "properties": {"spec": whole}, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    scope = {"group": "rules.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.rules.example.com"}, "spec": scope}


def thing(name: str, **spec: Any) -> Tree:
    return {"apiVersion": "rules.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def served(admin: HttpAsker, tree: Tree) -> None:
    await created(admin, DEFINITIONS, tree)

    async def is_served() -> bool:
        return (await admin.text(THINGS))[0] == 200

    await eventually(is_served)


@pytest.mark.parametrize("name", ["namespace", "__namespace__"])
@pytest.mark.parametrize(
    "rule",
    ["!has(self.{0}) || self.{0} == 'good'", "self.?{0}.orValue('good') == 'good'", "self.{0}.matches('^good$')"],
)
async def test_a_field_named_like_a_keyword_has_two_names(admin: HttpAsker, rule: str, name: str) -> None:
    await served(admin, definition({"properties": {"namespace": TEXT}}, rule.format(name)))
    await created(admin, THINGS, thing("a", namespace="good"))
    code, body = await admin("POST", THINGS, thing("b", namespace="bad"))
    assert (code, "failed rule" in body["message"]) == (422, True)


async def test_only_names_of_fields_may_be_keywords(admin: HttpAsker) -> None:
    code, body = await admin(
        "POST", DEFINITIONS, definition({"properties": {"package": TEXT}}, "self.namespace == 'a'")
    )
    assert (code, "undefined field 'namespace'" in body["message"]) == (422, True)
    code, body = await admin("POST", DEFINITIONS, definition({"properties": {"package": TEXT}}, "package == 'a'"))
    assert (code, "reserved identifier: package" in body["message"]) == (422, True)


@pytest.mark.parametrize("most", [{"maxProperties": 1000}, {}])
async def test_keys_of_maps_are_cheap_to_search(admin: HttpAsker, most: Tree) -> None:
    labels = {"type": "object", "additionalProperties": TEXT, **most}
    rule = "self.labels.all(key, key.find('^[a-z]{1,20}$') == key)"
    await served(admin, definition({"properties": {"labels": labels}}, rule))
    await created(admin, THINGS, thing("a", labels={"good": "x"}))
    assert (await admin("POST", THINGS, thing("b", labels={"BAD": "x"})))[0] == 422


async def test_names_of_resources_can_be_matched(admin: HttpAsker) -> None:
    rules = [{"rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.kind.matches('^T')"}]
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    whole = definition({"properties": {"template": embedded}}, "self.template.metadata.name.matches('^[a-z]+$')")
    whole["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules
    await served(admin, whole)
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
    await created(admin, THINGS, thing("a", template=template))
    assert (await admin("POST", THINGS, thing("1a", template=template)))[0] == 422
    assert (await admin("POST", THINGS, thing("b", template={**template, "metadata": {"name": "p-1"}})))[0] == 422


async def test_texts_without_a_limit_stay_expensive_in_loops(admin: HttpAsker) -> None:
    texts = {"type": "array", "items": TEXT}
    code, body = await admin(
        "POST",
        DEFINITIONS,
        definition({"properties": {"texts": texts}}, "self.texts.all(text, text.find('^a$') == '')"),
    )
    assert (code, "estimated rule cost exceeds budget" in body["message"]) == (422, True)
