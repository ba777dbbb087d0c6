"""Definitions and objects that are made to be slow, deep, large or in the way: a clear answer, and no turn held long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.resources import BY_TYPE
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.wire import Tree
from dray.apiserver.custom.definitions import holds
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, created, serving
from tests.hostile.attackers import uncollected
from tests.waiting import eventually, within

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/hostile.example.com/v1/namespaces/default/things"
MOST_SECONDS = 0.15  # of the processor for one turn; twenty milliseconds are the aim, and machines differ
NUMBER = {"type": "integer"}
PACKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
async def admin(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HttpAsker]:
    async with serving(Keys.open(tmp_path_factory.mktemp("keys"))) as asker:
        yield asker


@contextlib.asynccontextmanager
async def short_turns() -> AsyncIterator[None]:
    """Within this, no turn of the event loop takes long."""
    longest, stopped = 0.0, False

    async def tick() -> None:
        nonlocal longest
        while not stopped:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - began)

    with uncollected():
        ticking = asyncio.create_task(tick())
        yield
        stopped = True
        await ticking
    assert longest < MOST_SECONDS


def rooted(spec: Tree) -> Tree:
    return {"type": "object", "properties": {"spec": spec}}


def definition(schema: Tree, plural: str = "things", kind: str = "Thing", **spec: Any) -> Tree:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    whole = {"group": "hostile.example.com", "scope": "Namespaced", "names": names, "versions": [version], **spec}
    return {"metadata": {"name": f"{plural}.{whole['group']}"}, "spec": whole}


def thing(name: str = "t", **spec: Any) -> Tree:
    return {"apiVersion": "hostile.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def members(**properties: Tree) -> Tree:
    return {"type": "object", "properties": properties}


async def served(admin: HttpAsker, schema: Tree) -> None:
    await created(admin, DEFINITIONS, definition(schema))
    await eventually(lambda: is_served(admin))


async def is_served(admin: HttpAsker) -> bool:
    return (await admin.text(THINGS))[0] == 200


def is_established(admin: HttpAsker, name: str) -> bool:
    """Whether the server has written so, the moment that it has."""
    found = admin.running.api.storage.get(BY_TYPE[CustomResourceDefinition], "", name)
    return isinstance(found, CustomResourceDefinition) and holds(found, "Established")


@pytest.mark.parametrize("path", ["..absent", ".spec.large[?(@..absent)]", ".spec"])
async def test_columns_look_at_and_show_only_so_much_of_an_object(admin: HttpAsker, path: str) -> None:
    columns = [{"name": "size", "type": "integer", "jsonPath": ".spec.size"}]
    columns += [{"name": f"c{number}", "type": "string", "jsonPath": path} for number in range(100)]
    schema = rooted(members(size=NUMBER, large={"type": "array", "items": NUMBER}))
    tree = definition(schema)
    tree["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    await created(admin, DEFINITIONS, tree)
    await eventually(lambda: is_served(admin))
    for name in ("a", "b"):
        await created(admin, THINGS, thing(name, size=7, large=[*range(18_000)]))
    async with short_turns():
        for where in (THINGS, f"{THINGS}/a", f"{THINGS}?pretty=true"):
            code, table = await admin("GET", where, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            assert code == 200
            for row in table["rows"]:
                assert row["cells"][1] == 7
                assert row["cells"][-1] is None
                assert sum(len(str(cell)) for cell in row["cells"]) < 1_000_000


async def test_five_hundred_rules_are_checked_beside_the_loop(admin: HttpAsker) -> None:
    rules = [{"rule": f"self.size != {number + 7}", "message": f"not {number + 7}"} for number in range(500)]
    async with short_turns():
        await served(admin, rooted({**members(size=NUMBER), "x-kubernetes-validations": rules}))
        await created(admin, THINGS, thing(size=1))
        code, body = await admin("POST", THINGS, thing("u", size=44))
    assert (code, [cause["message"] for cause in body["details"]["causes"]]) == (422, ["Invalid value: not 44"])


async def test_costly_rules_are_asked_beside_the_loop(admin: HttpAsker) -> None:
    numbers = {"type": "array", "maxItems": 100, "items": NUMBER}
    rule = "self.numbers.all(a, self.numbers.all(b, a + b >= 0))"
    schema = rooted({**members(numbers=numbers), "x-kubernetes-validations": [{"rule": rule, "message": "negative"}]})
    await served(admin, schema)
    async with short_turns():
        answers = await asyncio.gather(
            *(admin("POST", THINGS, thing(f"t{number}", numbers=[*range(99), -number])) for number in range(3))
        )
    assert sorted(code for code, _ in answers) == [201, 422, 422]


async def test_a_rule_that_would_cost_too_much_is_refused_with_the_definition(admin: HttpAsker) -> None:
    endless = {"type": "array", "items": NUMBER}
    rule = "self.numbers.all(a, self.numbers.all(b, a + b >= 0))"
    schema = rooted({**members(numbers=endless), "x-kubernetes-validations": [{"rule": rule}]})
    code, body = await admin("POST", DEFINITIONS, definition(schema))
    assert (code, "estimated rule cost exceeds budget" in body["message"]) == (422, True)


async def test_alternatives_that_multiply_are_judged_beside_the_loop(admin: HttpAsker) -> None:
    options = [{"anyOf": [{"pattern": f"^x{number}-{inner}$"} for inner in range(40)]} for number in range(40)]
    item = {"type": "string", "anyOf": options}
    await served(admin, rooted(members(names={"type": "array", "items": item})))
    async with short_turns():
        code, body = await within(admin("POST", THINGS, thing(names=["x39-39"] * 300)))
    assert code == 201, body


async def test_defaults_that_multiply_are_cut_short(admin: HttpAsker) -> None:
    filled = {"type": "string", "default": "x" * 2000}
    await served(admin, rooted(members(items={"type": "array", "items": members(filled=filled)})))
    async with short_turns():
        code, body = await admin("POST", THINGS, thing(items=[{}] * 5000))
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")
    await created(admin, THINGS, thing(items=[{}] * 10))


async def test_defaults_within_defaults_are_judged_once(admin: HttpAsker) -> None:
    wide = members(**{f"f{number}": NUMBER for number in range(2000)})
    nested = wide
    for _ in range(25):
        nested = {**members(inner=nested), "default": {}}
    async with short_turns():
        code, body = await admin("POST", DEFINITIONS, definition(rooted(nested)))
    assert code == 201, body


async def test_a_definition_of_a_megabyte_and_many_values_is_served_once_it_is_established(admin: HttpAsker) -> None:
    schema = rooted(members(**{f"f{number}": {"type": "string"} for number in range(36_000)}))
    text = json.dumps(definition(schema))
    async with short_turns():
        code, body = await admin("POST", DEFINITIONS, text, content_type="application/json")
        assert code == 201, body["message"]
        await eventually(lambda: is_established(admin, "things.hostile.example.com"))
        await created(admin, THINGS, thing(f7="x"))
        patch = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/added", "value": NUMBER}]
        path = f"{DEFINITIONS}/things.hostile.example.com"
        assert (await admin("PATCH", path, patch, content_type="application/json-patch+json"))[0] == 200

        async def knows_the_new_field() -> bool:
            code, _ = await admin("POST", f"{THINGS}?dryRun=All", {**thing("u"), "added": "text"})
            return code == 422

        await eventually(knows_the_new_field)


async def test_patterns_that_are_costly_to_compile_are_compiled_beside_the_loop(admin: HttpAsker) -> None:
    texts = {f"f{n}": {"type": "string", "pattern": f"^(a|b|c{n})*[a-z]{{1,900}}$"} for n in range(350)}
    async with short_turns():
        await served(admin, rooted(members(**texts)))
        code, body = await admin("POST", THINGS, thing(f7="UPPER"))
    assert (code, "should match" in body["message"]) == (422, True)


@pytest.mark.parametrize("levels", [70, 150, 50_000])
async def test_a_schema_that_is_too_deep_is_refused(admin: HttpAsker, levels: int) -> None:
    text = '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels
    whole = '{"metadata":{"name":"things.hostile.example.com"},"spec":{"group":"hostile.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":'
    async with short_turns():
        code, body = await admin("POST", DEFINITIONS, f"{whole}{text}}}}}]}}}}", content_type="application/json")
    assert (code in (400, 422), "nested" in body["message"]) == (True, True)


@pytest.mark.parametrize("name", ["$ref", "definitions", "dependencies", "id", "patternProperties"])
async def test_a_schema_that_refers_to_itself_is_refused(admin: HttpAsker, name: str) -> None:
    value: Any = "#/properties/spec" if name in ("$ref", "id") else {"a": {"type": "object"}}
    code, body = await admin("POST", DEFINITIONS, definition(rooted({"type": "object", name: value})))
    assert (code, f"{name} is not supported" in body["message"] or "unknown field" in body["message"]) == (422, True)


async def test_a_schema_of_a_megabyte_is_served_or_refused_by_its_size(admin: HttpAsker) -> None:
    text = {"type": "string", "description": "x" * 250}
    async with short_turns():
        await served(admin, rooted(members(**{f"f{number}": text for number in range(3000)})))
        await created(admin, THINGS, thing(f7="x"))
    larger = definition(rooted(members(**{f"f{number}": text for number in range(8000)})), "others", "Other")
    code, body = await admin("POST", DEFINITIONS, json.dumps(larger), content_type="application/json")
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_five_hundred_definitions_are_served_and_go(admin: HttpAsker) -> None:
    async with short_turns():
        for start in range(0, 500, 50):
            answers = await asyncio.gather(
                *(
                    admin("POST", DEFINITIONS, definition(rooted(members(size=NUMBER)), f"k{n}s", f"K{n}"))
                    for n in range(start, start + 50)
                )
            )
            assert {code for code, _ in answers} == {201}

        async def all_served() -> bool:
            _, body = await admin("GET", "/apis/hostile.example.com/v1")
            return isinstance(body, dict) and len(body.get("resources", ())) == 500

        await eventually(all_served)
        for path, accept in (("v2", "application/json"), ("v2", PACKED), ("v3/apis/hostile.example.com/v1", "")):
            async with admin.send("GET", f"/openapi/{path}", accept=accept) as response:
                assert (response.status, len(await response.read()) > 500_000) == (200, True)
        assert (await admin("DELETE", DEFINITIONS))[0] == 200

    async def none() -> bool:
        return (await admin("GET", DEFINITIONS))[1]["items"] == []

    await eventually(none)


@pytest.mark.parametrize(
    ("plural", "kind", "reason"),
    [
        ("deviceclasses", "Other", "PluralConflict"),
        ("others", "DeviceClass", "ListKindConflict"),
    ],
)
async def test_names_of_built_in_kinds_cannot_be_taken(admin: HttpAsker, plural: str, kind: str, reason: str) -> None:
    tree = definition(rooted(members(size=NUMBER)), plural, kind, group="resource.k8s.io")
    tree["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await created(admin, DEFINITIONS, tree)

    async def conflicts() -> bool:
        _, body = await admin("GET", f"{DEFINITIONS}/{plural}.resource.k8s.io")
        held = {c["type"]: c for c in body["status"].get("conditions") or ()}
        return held.get("NamesAccepted", {}).get("reason") == reason and held["Established"]["status"] == "False"

    await eventually(conflicts)
    code, body = await admin("GET", "/apis/resource.k8s.io/v1/deviceclasses")
    assert (code, body["kind"]) == (200, "DeviceClassList")
