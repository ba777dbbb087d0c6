"""What users who may write can send: objects that are deep, long, large, or wrong in thousands of places."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from dray.api import protobuf
from dray.api.wire import Tree
from dray.apiserver.limits import LARGEST_OBJECT, Limits
from dray.apiserver.security.certificates import Keys
from tests import objects
from tests.apiserver.admission.hooking import Hook, hooking
from tests.apiserver.asking import HttpAsker, claim
from tests.hostile.attackers import CONFIG, PODS, Attacked, attacked, measured, posted

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
JSON = {"content_type": "application/json"}
YAML = {"content_type": "application/yaml"}


def nested(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"a": tree}
    return tree


def configured(parameters: dict[str, Any]) -> dict[str, Any]:
    """A claim with opaque parameters."""
    tree = claim("deep")
    opaque = {"driver": "gpu.example.com", "parameters": parameters}
    tree["spec"]["devices"]["config"] = [{"requests": ["r0"], "opaque": opaque}]
    return tree


@pytest.mark.parametrize("levels", [250, 900, 5000, 100_000])
async def test_what_is_deep_is_refused_before_it_is_stored(server: Attacked, levels: int) -> None:
    text = json.dumps(configured({"x": "DEEP"})).replace('"DEEP"', '{"a":' * levels + "{}" + "}" * levels)
    for path, method, content_type in (
        (CLAIMS, "POST", "application/json"),
        (CLAIMS, "POST", "application/yaml"),
        (f"{CLAIMS}/deep", "PATCH", "application/merge-patch+json"),
        (f"{CLAIMS}/deep?fieldManager=x", "PATCH", "application/apply-patch+yaml"),
    ):
        code, body = await server.user("editor")(method, path, text, content_type=content_type)
        assert code == 400, body
        assert "nested too deeply" in body["message"]


async def test_what_is_as_deep_as_allowed_is_listed_in_every_form(server: Attacked) -> None:
    await posted(server.user("editor"), CLAIMS, configured(nested(Limits().depth - 10)))
    for accept in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        async with server.user("viewer").send("GET", CLAIMS, accept=accept) as response:
            assert response.status == 200
            assert len(await response.read()) > 1000
    async with server.user("viewer").send("GET", f"{CLAIMS}?watch=1&timeoutSeconds=1") as response:
        assert b'"ADDED"' in await response.content.readline()


async def test_protobuf_is_no_way_around(server: Attacked) -> None:
    whole = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **configured(nested(900))}
    data = protobuf.encode(whole)
    code, answer = await server.user("editor")("POST", CLAIMS, data, content_type="application/vnd.kubernetes.protobuf")
    assert code == 400, answer
    assert "nested too deeply" in answer["message"]


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
async def test_more_values_than_anybody_needs_are_refused(server: Attacked, media: str) -> None:
    data = {f"k{number}": "v" for number in range(160_000)}
    tree = {"metadata": {"name": "many", "labels": data}}
    text = json.dumps(tree) if media.endswith("json") else yaml.dump(tree, Dumper=yaml.CSafeDumper)
    code, body = await server.user("editor")("POST", CONFIG, text, content_type=media)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_small_body_of_very_many_values_is_refused_quickly(server: Attacked) -> None:
    empty = b"".join((b"\x12", varint(2_000_000), b"\x12\x00" * 1_000_000))  # a spec with a million empty containers
    packed = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + varint(len(empty)) + empty
    for path, body, media in (
        (PODS, packed, "application/vnd.kubernetes.protobuf"),
        (CONFIG, b'{"data":[' + b"[]," * 900_000 + b"[]]}", "application/json"),
        (CONFIG, b'{"metadata":{"name":"a"},"data":{' + b'"a":"b",' * 300_000 + b'"a":"b"}}', "application/json"),
    ):
        async with measured() as stall:
            code, answer = await server.user("editor")("POST", path, body, content_type=media)
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
        assert stall.longest < 0.3  # a million containers took 1.1 s


async def test_brackets_in_a_string_are_no_values(server: Attacked) -> None:
    text = json.dumps({"metadata": {"name": "text"}, "data": {"x": '[{\\"' * 100_000}})
    assert (await server.user("editor")("POST", CONFIG, text, **JSON))[0] == 201


def varint(number: int) -> bytes:
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


@pytest.mark.parametrize(("terms", "code"), [(100, 201), (101, 422)])
async def test_a_pod_says_only_so_much_about_others(server: Attacked, terms: int, code: int) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * (terms - 30)}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    spec = {
        "containers": [{"name": "c", "image": "x"}],
        "affinity": {"podAntiAffinity": rules},
        "topologySpreadConstraints": [{**spread, "topologyKey": f"k{number}"} for number in range(30)],
    }
    found, body = await server.user("editor")("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert found == code, body


async def test_long_lists_of_plain_values_merge_quickly(server: Attacked) -> None:
    first, second = ([f"example.com/f{number}" for number in range(start, start + 9000)] for start in (0, 5000))
    await posted(server.user("editor"), CONFIG, {"metadata": {"name": "kept", "finalizers": first}})
    async with measured() as stall:
        code, body = await server.user("editor")(
            "PATCH",
            f"{CONFIG}/kept",
            {"metadata": {"finalizers": second, "$deleteFromPrimitiveList/finalizers": first[:4000]}},
            content_type="application/strategic-merge-patch+json",
        )
    assert (code, len(body["metadata"]["finalizers"])) == (200, 10_000)
    assert stall.longest < 0.3  # looking for each in the list took 0.7 s


async def test_thousands_of_applied_fields_do_not_hold_others_up(server: Attacked) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"template": {"spec": {"containers": [container]}}}
    tree = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "long"}, **spec}
    path = "/api/v1/namespaces/default/podtemplates/long?fieldManager=me"
    async with measured() as stall:
        for value in ("first", "second"):
            environment = [{"name": f"E{number}", "value": value} for number in range(6000)]
            text = json.dumps(tree).replace('"image"', f'"env": {json.dumps(environment)}, "image"')
            code, body = await server.user("editor")("PATCH", path, text, content_type="application/apply-patch+yaml")
            assert code in (200, 201), body
    assert stall.longest < 0.1  # laying them over the object took 0.15 s, twice


@pytest.mark.parametrize("media", ["application/strategic-merge-patch+json", "application/merge-patch+json", ""])
async def test_thousands_of_variables_do_not_hold_others_up(server: Attacked, media: str) -> None:
    def template(value: str) -> str:
        environment = [{"name": f"E{number}", "value": value} for number in range(9000)]
        spec = {"containers": [{"name": "c", "image": "i", "env": environment}]}
        return json.dumps({"metadata": {"name": "long"}, "template": {"spec": spec}})

    path = "/api/v1/namespaces/default/podtemplates"
    first, second = template("first"), template("second")
    async with measured() as stall:
        code, body = await server.user("editor")("POST", path, first, **JSON)
        assert code == 201, body
        method, content_type = ("PATCH", media) if media else ("PUT", "application/json")
        code, body = await server.user("editor")(method, f"{path}/long", second, content_type=content_type)
        assert code == 200, body
    assert stall.longest < 0.05  # merging them took 0.06 s, validating them as much


async def test_what_was_read_can_be_written_again_with_its_managers(server: Attacked) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await posted(
        server.user("editor"), path, {"metadata": {"name": "many"}, "data": {f"k{n}": "v" for n in range(15_000)}}
    )
    _, text = await server.user("editor").text(f"{path}/many")
    code, body = await server.user("editor")("PUT", f"{path}/many", text, **JSON)
    assert code == 200, body


async def test_large_bodies_have_places_of_their_own(keys: Keys, tmp_path: Path) -> None:
    text = json.dumps({"metadata": {"name": "large"}, "data": {"x": "y" * 100_000}})
    async with attacked(keys, tmp_path, limits=Limits(large_bodies_of_user=50_000)) as server:
        async with server.user("editor").send("POST", CONFIG, text, **JSON) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
        await posted(server.user("editor"), CONFIG, {"metadata": {"name": "small"}})
        assert (await server.admin("POST", CONFIG, text, **JSON))[0] == 201


async def test_large_bodies_of_one_user_are_worked_on_one_after_the_other(keys: Keys, tmp_path: Path) -> None:
    class Counting(Hook):
        """Knows about how many writes it was asked at the same time."""

        asked = most = 0

        async def handle(self, received: web.Request) -> web.Response:
            self.asked += 1
            self.most = max(self.most, self.asked)
            try:
                return await super().handle(received)
            finally:
                self.asked -= 1

    async with attacked(keys, tmp_path) as server, hooking(keys, Counting) as hook:
        hook.wait = 0.1
        await posted(server.admin, HOOKS, hook.configuration())

        async def write(asker: HttpAsker, size: int) -> int:
            tree = {"metadata": {"generateName": "c"}, "data": {"x": "y" * size}}
            return (await asker("POST", CONFIG, json.dumps(tree), **JSON))[0]

        for asker, size, at_once in (("editor", 40_000, 1), ("editor", 1_000, 3), ("", 40_000, 3)):
            hook.most, hook.together = 0, asyncio.Barrier(at_once)
            user = server.user(asker) if asker else server.admin
            assert await asyncio.gather(*(write(user, size) for _ in range(3))) == [201] * 3
            assert hook.most == at_once


async def test_an_object_that_is_wrong_in_thousands_of_places_gets_a_short_answer(server: Attacked) -> None:
    labels = {f"not ok {number}": "neither " + "x" * 100 for number in range(15_000)}
    text = json.dumps({"metadata": {"name": "bad", "labels": labels}})
    async with server.user("editor").send("POST", CONFIG, text, **JSON) as response:
        body = await response.read()
    assert response.status == 422
    assert len(body) < 128 << 10
    assert json.loads(body)["details"]["causes"]


async def test_one_wrong_value_of_a_megabyte_is_not_sent_back(server: Attacked) -> None:
    tree = {"metadata": {"name": "bad", "labels": {"a": "x" * 1_000_000}}}
    async with server.user("editor").send("POST", CONFIG, json.dumps(tree), **JSON) as response:
        body = await response.read()
    assert (response.status, len(body) < 128 << 10) == (422, True)
    assert "cut short" in json.loads(body)["message"]


async def test_objects_have_a_size_limit_however_they_come_to_it(server: Attacked) -> None:
    editor, path = server.user("editor"), "/apis/apps/v1/namespaces/default/deployments"
    code, body = await editor("POST", path, json.dumps(large_deployment("large", LARGEST_OBJECT)), **JSON)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")
    await posted(editor, path, large_deployment("grows", 900_000))
    env = "/spec/template/spec/containers/0/env"
    copy = [{"op": "copy", "from": f"{env}/0", "path": f"{env}/1"}]
    code, body = await editor("PATCH", f"{path}/grows", copy, content_type="application/json-patch+json")
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")
    _, found = await editor("GET", f"{path}/grows")
    assert len(found["spec"]["template"]["spec"]["containers"][0]["env"]) == 1


def large_deployment(name: str, size: int) -> dict[str, Any]:
    container = {"name": "c", "image": "app", "env": [{"name": "X", "value": "y" * size}]}
    return objects.deployment(name, containers=[container])


async def test_a_long_json_patch_of_a_large_map_is_quick(server: Attacked) -> None:
    editor = server.user("editor")
    await posted(editor, CONFIG, {"metadata": {"name": "map"}, "data": {f"k{n}": "v" for n in range(19_000)}})
    patch = [{"op": "add", "path": f"/data/n{number}", "value": "v"} for number in range(9_000)]
    async with measured() as stall:
        code, body = await editor("PATCH", f"{CONFIG}/map", patch, content_type="application/json-patch+json")
    assert code == 200
    assert len(body["data"]) == 28_000
    assert stall.longest < 0.5  # copying the map for every operation took 6 s


@pytest.mark.parametrize(
    "text",
    ["!!bool maybe", '!!int ""', "0x" + "f" * 20_000, "9" * 5000, "!!timestamp x", "1e999999", "!!map [a]", "!!null x"],
)
async def test_yaml_that_is_no_json_is_the_clients_fault(server: Attacked, text: str) -> None:
    for method, path, content_type in (
        ("POST", CONFIG, "application/yaml"),
        ("PATCH", f"{CONFIG}/c?fieldManager=x", "application/apply-patch+yaml"),
    ):
        body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: {text}}}\n"
        code, answer = await server.user("editor")(method, path, body, content_type=content_type)
        assert code == 400, answer


async def test_thousands_of_warnings_of_a_webhook_fit_into_the_headers(server: Attacked, keys: Keys) -> None:
    async with hooking(keys) as hook:
        hook.answer = lambda request: {"allowed": True, "warnings": [f"warning {n} " + "é" * 20 for n in range(3000)]}
        await posted(server.admin, HOOKS, hook.configuration())
        async with server.user("editor").send("POST", CONFIG, {"metadata": {"name": "c"}}) as response:
            assert response.status == 201
            warnings = response.headers.getall("warning")
        assert 1 <= len(warnings) <= 16
        assert sum(map(len, warnings)) < 8192


@pytest.mark.parametrize(("policy", "code"), [("Ignore", 201), ("Fail", 500)])
async def test_a_webhook_that_answers_deeply_has_failed(server: Attacked, keys: Keys, policy: str, code: int) -> None:
    deep = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    async with hooking(keys) as hook:
        hook.answer = lambda request: web.Response(text=deep, content_type="application/json")
        await posted(server.admin, HOOKS, hook.configuration(failurePolicy=policy))
        found, body = await server.user("editor")("POST", CONFIG, {"metadata": {"name": "c"}})
        assert found == code, body


async def test_a_compressed_answer_of_a_webhook_is_not_unpacked(server: Attacked, keys: Keys) -> None:
    """A kibibyte of gzip may stand for a mebibyte. A webhook is asked for plain text, and what it sends is taken as that."""

    def compressed(request: Tree) -> web.Response:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        text = json.dumps({**review, "response": {"uid": request["uid"], "allowed": True}})
        body = gzip.compress(text.encode() + b" " * 500_000)
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return web.Response(body=body, headers=headers)

    async with hooking(keys) as hook:
        hook.answer = compressed
        await posted(server.admin, HOOKS, hook.configuration())
        found, body = await server.user("editor")("POST", CONFIG, {"metadata": {"name": "c"}})
        assert (found, "no AdmissionReview" in body["message"]) == (500, True), body
        assert hook.headers[-1]["accept-encoding"] == "identity"


async def test_cookies_of_a_webhook_are_not_kept(server: Attacked, keys: Keys) -> None:
    def baking(request: Tree) -> web.Response:
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        response = web.json_response({**review, "response": {"uid": request["uid"], "allowed": True}})
        response.set_cookie("kept", "x" * 1000)
        return response

    async with hooking(keys) as hook:
        hook.answer = baking
        hook.url = hook.url.replace("127.0.0.1", "localhost")  # addresses have no cookies
        await posted(server.admin, HOOKS, hook.configuration())
        for name in ("one", "two"):
            assert (await server.user("editor")("POST", CONFIG, {"metadata": {"name": name}}))[0] == 201
        assert all("cookie" not in headers for headers in hook.headers)


async def test_large_yaml_does_not_hold_others_up(server: Attacked) -> None:
    tree = {"metadata": {"name": "yaml"}, "data": {f"k{n}": "v" * 20 for n in range(15_000)}}
    text = await asyncio.to_thread(yaml.dump, tree, Dumper=yaml.CSafeDumper)
    async with measured() as stall:
        sending = asyncio.ensure_future(server.user("editor")("POST", CONFIG, text, **YAML))
        while not sending.done():
            assert (await server.user("viewer")("GET", PODS))[0] == 200
        assert (await sending)[0] == 201
    assert stall.longest < 0.5
