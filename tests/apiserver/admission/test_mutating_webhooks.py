"""Mutating webhooks on a server: what they change, in which order, what a bad one does, and webhooks behind a Service."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Hook, hooking
from tests.apiserver.asking import HttpAsker, created, pod, serving

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def hook_keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("hook"), ("hook.default.svc",))


@pytest.fixture
async def hook(hook_keys: Keys) -> AsyncIterator[Hook]:
    async with hooking(hook_keys) as one:
        yield one


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys, disabled_plugins=("ServiceAccount",)) as asker:
        yield asker


def patching(*operations: Tree) -> Tree:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def configure(admin: HttpAsker, hook: Hook, name: str = "change.example.com", **fields: Any) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    tree = hook.configuration(name, rules=[rule], **fields)
    await created(admin, CONFIGURATIONS, {**tree, "kind": "MutatingWebhookConfiguration"})


async def test_a_patch_is_applied_checked_and_defaulted(admin: HttpAsker, hook: Hook) -> None:
    hook.answer = lambda request: patching(
        {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "s"}},
    )
    await configure(admin, hook)
    for name in ("a", "b"):  # the second is no copy of what the first came to
        code, body = await admin("POST", PODS, pod(name))
        assert code == 201, body
        assert body["metadata"]["labels"] == {"by": "hook"}
        sidecar = body["spec"]["containers"][-1]
        assert (sidecar["name"], sidecar["imagePullPolicy"]) == ("sidecar", "Always")
    assert [request["object"]["metadata"]["name"] for request in hook.requests] == ["a", "b"]


async def test_a_webhook_is_asked_again_after_others_have_changed_the_object(admin: HttpAsker, hook: Hook) -> None:
    def answer(request: Tree) -> Tree:
        labels = request["object"]["metadata"].get("labels") or {}
        return patching({"op": "add", "path": "/metadata/labels", "value": {**labels, f"n{len(labels)}": "x"}})

    hook.answer = answer
    await configure(admin, hook, "a.example.com", reinvocationPolicy="IfNeeded")
    await configure(admin, hook, "b.example.com")
    code, body = await admin("POST", PODS, pod("p"))
    assert (code, sorted(body["metadata"]["labels"])) == (201, ["n0", "n1", "n2"])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"allowed": True, "patchType": "JSONPatch", "patch": "bm8="}, "its patch cannot be applied"),
        ({"allowed": True, "patchType": "Other", "patch": "W10="}, "patchType must be JSONPatch"),
        ({"allowed": False, "status": {"message": "no"}}, "denied the request: no"),
    ],
)
async def test_a_webhook_that_cannot_be_followed_refuses(admin: HttpAsker, hook: Hook, answer: Tree, text: str) -> None:
    hook.answer = lambda request: answer
    await configure(admin, hook)
    code, body = await admin("POST", PODS, pod("p"))
    assert code >= 400
    assert text in body["message"]


async def test_what_a_webhook_makes_must_be_valid(admin: HttpAsker, hook: Hook) -> None:
    hook.answer = lambda request: patching({"op": "replace", "path": "/spec/restartPolicy", "value": "Sometimes"})
    await configure(admin, hook)
    code, body = await admin("POST", PODS, pod("p"))
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.restartPolicy")


async def test_a_webhook_behind_a_service_is_called_at_a_ready_endpoint(admin: HttpAsker, hook: Hook) -> None:
    hook.answer = lambda request: patching({"op": "add", "path": "/metadata/labels", "value": {"by": "service"}})
    service = {"namespace": "default", "name": "hook", "path": "/check", "port": 8443}
    await configure(admin, hook, clientConfig={"service": service, "caBundle": hook.authority})
    code, body = await admin("POST", PODS, pod("early"))
    assert (code, 'service "hook" not found' in body["message"]) == (500, True)
    ports = [{"name": "https", "port": 8443, "targetPort": 1}]
    await created(
        admin, "/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": {"ports": ports}}
    )
    code, body = await admin("POST", PODS, pod("early"))
    assert (code, 'no endpoints available for service "hook"' in body["message"]) == (500, True)
    slice_ = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": urlsplit(hook.url).port}],
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": False}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": True}},
        ],
    }
    await created(admin, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    code, body = await admin("POST", PODS, pod("p"))
    assert (code, body.get("metadata", body)["labels"]) == (201, {"by": "service"})
