"""Patches that are short to send and long to apply: copies of copies, lists that move, one element merged many times."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from aiohttp import web

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Hook, hooking
from tests.hostile.attackers import CONFIG, Attacked, measured, posted
from tests.hostile.attacks import DEFINITIONS, definition
from tests.objects import deployment
from tests.waiting import eventually

LARGES = "/apis/hostile.example.com/v1/namespaces/default/larges"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONTENT = "/spec/content"
JSON_PATCH = {"content_type": "application/json-patch+json"}
STRATEGIC = {"content_type": "application/strategic-merge-patch+json"}
LONGEST_TURN = 0.1  # seconds of processor time; each of these patches took 0.2 to 1.5 s,
SHORT_TURN = 0.03  # and takes 0.05 s until it is refused, beside the loop
Operations = list[dict[str, Any]]


def doubling(start: str, times: int = 40) -> Operations:
    """Copies a list into itself, again and again."""
    copy = {"op": "copy", "from": start, "path": f"{start}/-"}
    return [{"op": "add", "path": start, "value": []}, *[copy] * times]


def moving(length: int = 100_000) -> Operations:
    """Adds a long list, and then inserts before it."""
    return [{"op": "add", "path": "/x", "value": [0] * length}, *[{"op": "add", "path": "/x/0", "value": 1}] * 5000]


async def with_content(server: Attacked, content: dict[str, Any]) -> str:
    """A custom object of the user `definer`, whose content may be any JSON; its path."""
    tree = definition({"content": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    await posted(server.admin, DEFINITIONS, tree)
    await eventually(lambda: is_served(server))
    large = {"apiVersion": "hostile.example.com/v1", "kind": "Large", "metadata": {"name": "c"}}
    await posted(server.admin, LARGES, {**large, "spec": {"content": content}})
    return f"{LARGES}/c"


async def is_served(server: Attacked) -> bool:
    return (await server.admin.text(LARGES))[0] == 200


async def test_copies_of_copies_are_refused_and_hold_nobody_up(server: Attacked) -> None:
    await posted(server.user("editor"), CONFIG, {"metadata": {"name": "c"}})
    bomb = json.dumps(doubling("/x"))
    assert len(bomb) < 2500
    async with measured() as stall:
        patching = [server.user("editor")("PATCH", f"{CONFIG}/c", bomb, **JSON_PATCH) for _ in range(10)]
        answers = await asyncio.gather(*patching)
    assert [(code, body["reason"]) for code, body in answers] == [(422, "Invalid")] * 10
    assert stall.longest < LONGEST_TURN


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


async def test_patches_of_one_user_that_grow_are_worked_on_one_after_the_other(server: Attacked, keys: Keys) -> None:
    path = await with_content(server, {"x": list(range(5000))})
    copying = [{"op": "copy", "from": f"{CONTENT}/x", "path": f"{CONTENT}/y"}]
    async with hooking(keys, Counting) as hook:
        hook.wait = 0.1
        await posted(server.admin, f"{ADMISSION}/validatingwebhookconfigurations", hook.configuration())
        patching = [server.user("definer")("PATCH", f"{path}?dryRun=All", copying, **JSON_PATCH) for _ in range(3)]
        assert [code for code, _ in await asyncio.gather(*patching)] == [200] * 3
        assert hook.most == 1


async def test_a_patch_that_makes_an_object_large_is_applied_beside_the_loop(server: Attacked) -> None:
    path = await with_content(server, {"x": [{"a": "b"} for _ in range(1500)]})
    source = f"{CONTENT}/x"
    copies = [{"op": "copy", "from": source, "path": f"{CONTENT}/copy{number}"} for number in range(20)]
    async with measured() as stall:
        code, body = await server.user("definer")("PATCH", path, copies, **JSON_PATCH)
    assert code == 200, body
    made = body["spec"]["content"]
    assert made["copy19"] == made["x"]
    assert stall.longest < LONGEST_TURN


async def test_no_patch_makes_more_values_than_a_body_may_have(server: Attacked) -> None:
    path = await with_content(server, {"x": [0] * 100_000})
    copies = [{"op": "copy", "from": f"{CONTENT}/x", "path": f"{CONTENT}/y"}]
    code, body = await server.user("definer")("PATCH", path, copies, **JSON_PATCH)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("operation", [{"op": "add", "value": 1}, {"op": "remove"}])
async def test_a_long_list_does_not_move_at_thousands_of_operations(
    server: Attacked, operation: dict[str, Any]
) -> None:
    path = await with_content(server, {"x": [0] * 140_000})
    moving = [{**operation, "path": f"{CONTENT}/x/0"}] * 9000
    code, body = await server.user("definer")("PATCH", path, moving, **JSON_PATCH)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_long_list_is_not_made_anew_at_thousands_of_operations(server: Attacked) -> None:
    """After each copy the list may be in two places, so that the next change needs a list of its own."""
    path = await with_content(server, {"x": [0] * 100_000})
    copying = [{"op": "copy", "from": f"{CONTENT}/x/0", "path": f"{CONTENT}/x/-"}] * 4000
    code, body = await server.user("definer")("PATCH", path, copying, **JSON_PATCH)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_thousands_of_changes_to_an_ordinary_list_are_made(server: Attacked) -> None:
    path = await with_content(server, {"x": [0] * 10_000})
    moving = [{"op": "add", "path": f"{CONTENT}/x/0", "value": 1}] * 9000
    code, body = await server.user("definer")("PATCH", path, moving, **JSON_PATCH)
    assert code == 200, body
    assert body["spec"]["content"]["x"] == [1] * 9000 + [0] * 10_000


def nested(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"a": tree}
    return tree


async def test_operations_do_not_nest_deeper_than_a_body_may(server: Attacked) -> None:
    levels = Limits().depth - 20
    path = await with_content(server, {"x": nested(levels), "y": nested(levels)})
    below = f"{CONTENT}/x" + "/a" * levels
    joined = [{"op": "move", "from": f"{CONTENT}/y", "path": f"{below}/b"}]
    code, body = await server.user("definer")("PATCH", path, joined, **JSON_PATCH)
    assert (code, body["reason"]) == (400, "BadRequest")
    copied = [*joined, {"op": "copy", "from": f"{CONTENT}/x", "path": f"{CONTENT}/z"}]
    code, body = await server.user("definer")("PATCH", path, copied, **JSON_PATCH)
    assert (code, body["reason"]) == (422, "Invalid")


async def test_one_element_is_not_merged_a_thousand_times(server: Attacked) -> None:
    environment = [{"name": f"E{number}"} for number in range(1500)]
    spec = {"containers": [{"name": "c", "image": "i", "env": environment}]}
    await posted(server.user("editor"), TEMPLATES, {"metadata": {"name": "t"}, "template": {"spec": spec}})
    same = {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "E0"}]}] * 800}}}
    assert len(json.dumps(same)) < 1 << 16
    async with measured() as stall:
        code, body = await server.user("editor")("PATCH", f"{TEMPLATES}/t", same, **STRATEGIC)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")
    assert stall.longest < LONGEST_TURN


async def test_one_owner_is_not_merged_a_thousand_times(server: Attacked) -> None:
    await posted(server.user("editor"), CONFIG, {"metadata": {"name": "c"}})
    wide = {"uid": "u", **{f"k{number}": 0 for number in range(20_000)}}
    same = {"metadata": {"ownerReferences": [wide, *[{"uid": "u"}] * 20_000]}}
    code, body = await server.user("editor")("PATCH", f"{CONFIG}/c", same, **STRATEGIC)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_the_order_of_a_list_is_not_set_a_thousand_times(server: Attacked) -> None:
    environment = [{"name": f"E{number}"} for number in range(1500)]
    spec = {"containers": [{"name": "c", "image": "i", "env": environment}]}
    await posted(server.user("editor"), TEMPLATES, {"metadata": {"name": "t"}, "template": {"spec": spec}})
    same = {"template": {"spec": {"containers": [{"name": "c", "$setElementOrder/env": []}] * 800}}}
    code, body = await server.user("editor")("PATCH", f"{TEMPLATES}/t", same, **STRATEGIC)
    assert (code, body["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(("patch", "code"), [(doubling("/x"), 422), (moving(), 413)])
async def test_a_scale_is_no_way_around(server: Attacked, patch: Operations, code: int) -> None:
    await posted(server.user("editor"), DEPLOYMENTS, deployment("d"))
    text = json.dumps(patch)
    async with measured() as stall:
        found, body = await server.user("editor")("PATCH", f"{DEPLOYMENTS}/d/scale", text, **JSON_PATCH)
    assert found == code, body
    assert stall.longest < SHORT_TURN


@pytest.mark.parametrize("patch", [doubling("/x"), moving()])
async def test_a_webhook_is_no_way_around(server: Attacked, keys: Keys, patch: Operations) -> None:
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    async with hooking(keys) as hook:
        hook.answer = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
        tree = {**hook.configuration(failurePolicy="Ignore"), "kind": "MutatingWebhookConfiguration"}
        await posted(server.admin, f"{ADMISSION}/mutatingwebhookconfigurations", tree)
        async with measured() as stall:
            code, body = await server.user("editor")("POST", CONFIG, {"metadata": {"name": "c"}})
    assert (code, body["reason"]) == (500, "InternalError")
    assert "its patch cannot be applied" in body["message"]
    assert stall.longest < SHORT_TURN


async def test_a_policy_is_no_way_around(server: Attacked) -> None:
    copies = ", ".join(['JSONPatch{op: "copy", from: "/x", path: "/x/-"}'] * 40)
    expression = f'[JSONPatch{{op: "add", path: "/x", value: []}}, {copies}]'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    await posted(server.admin, f"{ADMISSION}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p"}}
    await posted(server.admin, f"{ADMISSION}/mutatingadmissionpolicybindings", bound)
    async with measured() as stall:
        code, body = await server.user("editor")("POST", CONFIG, {"metadata": {"name": "c"}})
    assert (code, body["reason"]) == (422, "Invalid")
    assert "copy operations" in body["message"]
    assert stall.longest < SHORT_TURN


async def test_what_a_webhook_makes_large_is_worked_on_beside_the_loop(server: Attacked, keys: Keys) -> None:
    environment = [{"name": f"E{number}", "value": "v"} for number in range(1000)]
    container = {"name": "c0", "image": "i", "env": environment}
    copies = [{"op": "add", "path": "/template/spec/containers/0", "value": container}]
    for number in range(1, 40):
        copies.append({"op": "copy", "from": "/template/spec/containers/0", "path": "/template/spec/containers/-"})
        copies.append({"op": "replace", "path": f"/template/spec/containers/{number}/name", "value": f"c{number}"})
    patch = base64.b64encode(json.dumps(copies).encode()).decode()
    async with hooking(keys) as hook:
        hook.answer = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
        tree = {**hook.configuration(), "kind": "MutatingWebhookConfiguration"}
        await posted(server.admin, f"{ADMISSION}/mutatingwebhookconfigurations", tree)
        body = {"metadata": {"name": "t"}, "template": {"spec": {"containers": []}}}
        async with measured() as stall:
            code, made = await server.user("editor")("POST", TEMPLATES, body)
    assert code == 201, made
    assert len(made["template"]["spec"]["containers"][39]["env"]) == 1000
    assert stall.longest < SHORT_TURN
