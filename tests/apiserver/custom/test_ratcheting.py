"""A schema may become stricter than what is stored: what an update leaves as it was is not judged again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.apiserver.custom.test_custom_resources import DEFINITIONS, MERGE, WIDGETS, define, widget
from tests.waiting import eventually

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PART = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "size": NUMBER}}
PARTS = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": PART}
LOOSE = {"type": "object", "properties": {"tag": TEXT, "note": TEXT, "parts": PARTS, "set": {"type": "array", "items": TEXT}}}  # fmt: skip


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys) as asker:
        await define(asker, LOOSE)
        yield asker


async def tighten(admin: HttpAsker, **properties: Tree) -> None:
    """Change the schema of the spec, and wait until that holds."""
    path = f"{DEFINITIONS}/widgets.example.com"
    _, found = await admin("GET", path)
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = properties.pop("rules", [])
    spec["properties"] |= properties
    assert (await admin("PUT", path, found))[0] == 200
    wanted = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def is_noticed() -> bool:
        known = admin.running.definitions.find("example.com", "widgets")
        assert known is not None
        assert known.custom is not None
        return known.custom.versions["v1"].node.schema == wanted

    await eventually(is_noticed)


async def patched(admin: HttpAsker, **spec: Any) -> tuple[int, Any]:
    return await admin("PATCH", f"{WIDGETS}/w", {"spec": spec}, content_type=MERGE)


async def test_a_value_that_stays_is_let_in_and_one_that_changes_is_not(admin: HttpAsker) -> None:
    await created(admin, WIDGETS, widget(tag="far too long"))
    await tighten(admin, tag={**TEXT, "maxLength": 3})
    assert (await patched(admin, note="new"))[0] == 200
    code, body = await patched(admin, tag="too long as well")
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.tag")
    assert (await admin("POST", WIDGETS, widget("x", tag="far too long")))[0] == 422


async def test_elements_of_a_list_with_keys_are_compared_one_by_one(admin: HttpAsker) -> None:
    await created(admin, WIDGETS, widget(parts=[{"name": "a", "size": 9}, {"name": "b", "size": 1}]))
    await tighten(admin, parts={**PARTS, "items": {**PART, "properties": {"name": TEXT, "size": {**NUMBER, "maximum": 5}}}})  # fmt: skip
    assert (await patched(admin, parts=[{"name": "b", "size": 2}, {"name": "a", "size": 9}]))[0] == 200
    code, body = await patched(admin, parts=[{"name": "b", "size": 8}, {"name": "a", "size": 9}])
    assert (code, [cause["field"] for cause in body["details"]["causes"]]) == (422, ["spec.parts[0].size"])


async def test_rules_are_asked_about_what_changes(admin: HttpAsker) -> None:
    part = {**PART, "x-kubernetes-validations": [{"rule": "self.size < 5", "message": "too large"}]}
    await created(admin, WIDGETS, widget(parts=[{"name": "a", "size": 9}]))
    await tighten(admin, parts={**PARTS, "maxItems": 10, "items": part})
    assert (await patched(admin, note="new"))[0] == 200
    assert (await patched(admin, parts=[{"name": "a", "size": 8}]))[0] == 422


async def test_a_rule_about_changes_is_always_asked(admin: HttpAsker) -> None:
    await created(admin, WIDGETS, widget(tag="x"))
    await tighten(admin, rules=[{"rule": "!has(self.tag) || self.tag != oldSelf.tag", "message": "must change"}])
    code, body = await patched(admin, note="new")
    assert (code, "must change" in body["message"]) == (422, True)


async def test_a_list_that_was_no_set_before_stays_what_it_is(admin: HttpAsker) -> None:
    await created(admin, WIDGETS, widget(set=["a", "a"]))
    await created(admin, WIDGETS, widget("fine", set=["a", "b"]))
    await tighten(admin, set={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"})
    assert (await patched(admin, note="new"))[0] == 200
    code, _ = await admin("PATCH", f"{WIDGETS}/fine", {"spec": {"set": ["b", "b"]}}, content_type=MERGE)
    assert code == 422
