"""Admission of connections: exec, attach and port-forward into pods, and the proxy of nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Answer, hooking
from tests.apiserver.asking import HttpAsker, created, pod, serving

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
EXEC = f"{PODS}/p/exec?command=rm&command=-r&stdout=1&stderr=0&tty=false&container=main"
CONNECT = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}
NO_UPGRADE = "Upgrade request required"  # what a plain request is told that admission lets pass


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys) as asker:
        await created(asker, PODS, pod("p"))
        yield asker


async def forbid(asker: HttpAsker, expression: str, **constraints: Any) -> None:
    """Bind a policy that lets connections pass only where an expression holds."""
    spec = {
        "matchConstraints": {"resourceRules": [CONNECT], **constraints},
        "validations": [{"expression": expression}],
    }
    await created(asker, f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    path = f"{ADMISSION}/validatingadmissionpolicybindings"
    await created(asker, path, {"metadata": {"name": "b"}, "spec": binding})


async def message(asker: HttpAsker, path: str, method: str = "POST") -> str:
    code, body = await asker(method, path)
    assert code >= 400
    return str(body["message"])


async def test_a_policy_refuses_commands(admin: HttpAsker) -> None:
    await forbid(
        admin, "request.operation != 'CONNECT' || object.kind != 'PodExecOptions' || object.command[0] != 'rm'"
    )
    for method in ("GET", "POST"):
        assert "denied request: failed expression" in await message(admin, EXEC, method)
    for allowed in ("exec?command=ls&stdout=1", "attach?stdout=1", "portforward?ports=80"):
        assert await message(admin, f"{PODS}/p/{allowed}") == NO_UPGRADE


async def test_a_webhook_sees_the_options_of_a_connection(admin: HttpAsker, keys: Keys) -> None:
    async with hooking(keys) as hook:
        hook.answer = lambda request: {"allowed": False, "status": {"message": "not here", "code": 403}}
        configuration = hook.configuration(rules=[CONNECT])
        await created(admin, f"{ADMISSION}/validatingwebhookconfigurations", configuration)
        assert await message(admin, EXEC) == 'admission webhook "check.example.com" denied the request: not here'
        assert "not here" in await message(admin, f"{PODS}/p/attach?stdin=True")
        assert "not here" in await message(admin, f"{PODS}/p/portforward?ports=80,81")
        assert "not here" in await message(admin, "/api/v1/nodes/n/proxy/stats/summary", "GET")
        executed, attached, forwarded, proxied = hook.requests
        assert executed["object"] == {
            "apiVersion": "v1",
            "kind": "PodExecOptions",
            "stdout": True,
            "container": "main",
            "command": ["rm", "-r"],
        }
        assert executed["operation"] == "CONNECT"
        assert executed["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
        assert (executed["resource"]["resource"], executed["subResource"]) == ("pods", "exec")
        assert (executed["namespace"], executed["name"]) == ("default", "p")
        assert "oldObject" not in executed
        assert attached["object"] == {"apiVersion": "v1", "kind": "PodAttachOptions", "stdin": True}
        assert forwarded["object"] == {"apiVersion": "v1", "kind": "PodPortForwardOptions", "ports": [80, 81]}
        assert proxied["object"]["kind"] == "NodeProxyOptions"
        assert proxied["object"]["path"].strip("/") == "stats/summary"


async def test_connections_have_no_labels_to_select(admin: HttpAsker) -> None:
    await forbid(admin, "false", objectSelector={"matchLabels": {"app": "x"}})
    assert await message(admin, EXEC) == NO_UPGRADE


async def test_who_may_not_connect_causes_no_review(admin: HttpAsker, keys: Keys) -> None:
    async with hooking(keys) as hook:
        await created(admin, f"{ADMISSION}/validatingwebhookconfigurations", hook.configuration(rules=[CONNECT]))
        code, _ = await admin("POST", EXEC, impersonate_user="jane")
        assert (code, hook.requests) == (403, [])


async def test_writes_are_not_connections(admin: HttpAsker, keys: Keys) -> None:
    async with hooking(keys) as hook:
        await created(admin, f"{ADMISSION}/validatingwebhookconfigurations", hook.configuration(rules=[CONNECT]))
        await created(admin, PODS, pod("q"))
        assert await message(admin, EXEC) == NO_UPGRADE
        assert [request["operation"] for request in hook.requests] == ["CONNECT"]


def patching(*operations: Tree) -> Answer:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def test_a_mutating_webhook_changes_the_options_that_are_judged(admin: HttpAsker, keys: Keys) -> None:
    await forbid(admin, "object.command == ['ls', '-l']")
    async with hooking(keys) as hook:
        hook.answer = patching({"op": "replace", "path": "/command", "value": ["ls", "-l"]})
        configuration = {**hook.configuration(rules=[CONNECT]), "kind": "MutatingWebhookConfiguration"}
        await created(admin, f"{ADMISSION}/mutatingwebhookconfigurations", configuration)
        assert await message(admin, EXEC) == NO_UPGRADE
        for wrong in ({"command": 7}, {"colour": "red"}):
            ((field, value),) = wrong.items()
            hook.answer = patching({"op": "add", "path": f"/{field}", "value": value})
            assert "its patch cannot be applied: no valid PodExecOptions" in await message(admin, EXEC)


async def test_a_mutating_webhook_refuses_deletions_and_changes_none(admin: HttpAsker, keys: Keys) -> None:
    rule = {**CONNECT, "operations": ["DELETE"], "resources": ["pods"]}
    async with hooking(keys) as hook:
        configuration = {**hook.configuration(rules=[rule]), "kind": "MutatingWebhookConfiguration"}
        await created(admin, f"{ADMISSION}/mutatingwebhookconfigurations", configuration)
        hook.answer = lambda request: {"allowed": False, "status": {"message": "keep it", "code": 403}}
        assert "keep it" in await message(admin, f"{PODS}/p", "DELETE")
        hook.answer = patching({"op": "add", "path": "/metadata/labels", "value": {}})
        assert "attempted to modify the object, which is not supported" in await message(admin, f"{PODS}/p", "DELETE")
        hook.answer = lambda request: {"allowed": True}
        assert (await admin("DELETE", f"{PODS}/p"))[0] == 200
        assert [request["oldObject"]["metadata"]["name"] for request in hook.requests] == ["p"] * 3
