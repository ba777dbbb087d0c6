"""What webhooks and mutating policies make of what subresources take: bindings, evictions, requests for tokens, and scales."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Hook, hooking
from tests.apiserver.admission.test_mutating_policies import apply, bind, patch, policy
from tests.apiserver.admission.test_mutating_webhooks import CONFIGURATIONS, patching
from tests.apiserver.asking import HttpAsker, created, serving
from tests.hostile.attacks import DEFINITIONS, definition
from tests.waiting import eventually

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"
CUSTOM = "/apis/hostile.example.com/v1/namespaces/default/larges"
MERGE = "application/merge-patch+json"
SPEC = {"containers": [{"name": "c", "image": "i"}]}
TOKEN = f"{NAMESPACE}/serviceaccounts/default/token"
TAKEN: dict[str, tuple[str, str, Tree, str]] = {  # by kind: how it is asked for, and the resource of the rule
    "Binding": ("POST", f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n"}}, "pods/binding"),
    "Eviction": ("POST", f"{PODS}/p/eviction", {}, "pods/eviction"),
    "TokenRequest": ("POST", TOKEN, {"spec": {"audiences": ["a"]}}, "serviceaccounts/token"),
    "Scale": ("PATCH", f"{DEPLOYMENT}/d/scale", {"spec": {"replicas": 2}}, "deployments/scale"),
    "Scale of a custom object": ("PATCH", f"{CUSTOM}/l/scale", {"spec": {"replicas": 2}}, "larges/scale"),
}


@pytest.fixture
async def hook(keys: Keys) -> AsyncIterator[Hook]:
    async with hooking(keys) as one:
        yield one


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys, disabled_plugins=("ServiceAccount",)) as asker:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
        workload = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await created(asker, DEPLOYMENT, {"metadata": {"name": "d"}, "spec": workload})
        tree = definition({"replicas": {"type": "integer"}})
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        tree["spec"]["versions"][0]["subresources"] = {"scale": paths}
        await created(asker, DEFINITIONS, tree)
        await eventually(lambda: served(asker))
        large = {"apiVersion": "hostile.example.com/v1", "kind": "Large", "metadata": {"name": "l"}}
        await created(asker, CUSTOM, {**large, "spec": {"replicas": 1}})
        await created(asker, PODS, {"metadata": {"name": "p"}, "spec": SPEC})
        yield asker


async def served(admin: HttpAsker) -> bool:
    async with admin.send("GET", CUSTOM) as response:
        return response.status == 200


async def sent(admin: HttpAsker, kind: str) -> tuple[int, Any]:
    method, path, body, _ = TAKEN[kind]
    content_type = MERGE if method == "PATCH" else "application/json"
    async with admin.send(method, path, body, content_type=content_type) as response:
        return response.status, await response.json()


async def configure(admin: HttpAsker, hook: Hook, resource: str) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}
    tree = {**hook.configuration(rules=[rule]), "kind": "MutatingWebhookConfiguration"}
    await created(admin, CONFIGURATIONS, tree)


@pytest.mark.parametrize("kind", TAKEN)
async def test_a_mutating_webhook_is_asked_and_may_refuse(admin: HttpAsker, hook: Hook, kind: str) -> None:
    await configure(admin, hook, TAKEN[kind][3])
    hook.answer = lambda request: {"allowed": False, "status": {"message": "not so", "code": 403}}
    code, body = await sent(admin, kind)
    assert (code, body["message"]) == (403, 'admission webhook "check.example.com" denied the request: not so')
    (request,) = hook.requests
    named = kind.partition(" ")[0]
    assert (request["kind"]["kind"], request["object"]["kind"]) == (named, named)
    assert request["object"]["apiVersion"].rpartition("/")[0] == request["kind"]["group"]
    assert request["object"]["metadata"]["name"] == request["name"]


async def test_a_webhook_gives_a_pod_another_node(admin: HttpAsker, hook: Hook) -> None:
    await configure(admin, hook, "pods/binding")
    hook.answer = lambda request: patching({"op": "replace", "path": "/target/name", "value": "other"})
    assert (await sent(admin, "Binding"))[0] == 201
    assert (await admin("GET", f"{PODS}/p"))[1]["spec"]["nodeName"] == "other"


async def test_a_webhook_shortens_the_time_of_an_evicted_pod(admin: HttpAsker, hook: Hook) -> None:
    await created(admin, PODS, {"metadata": {"name": "q"}, "spec": {**SPEC, "nodeName": "n"}})
    await configure(admin, hook, "pods/eviction")
    options = {"gracePeriodSeconds": 7}
    hook.answer = lambda request: patching({"op": "add", "path": "/deleteOptions", "value": options})
    assert (await admin("POST", f"{PODS}/q/eviction", {}))[0] == 201
    assert (await admin("GET", f"{PODS}/q"))[1]["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_a_webhook_chooses_the_audience_of_a_token(admin: HttpAsker, hook: Hook) -> None:
    await configure(admin, hook, "serviceaccounts/token")
    hook.answer = lambda request: patching({"op": "replace", "path": "/spec/audiences", "value": ["b"]})
    code, body = await sent(admin, "TokenRequest")
    assert (code, body["spec"]["audiences"]) == (201, ["b"])


@pytest.mark.parametrize(("kind", "path"), [("Scale", f"{DEPLOYMENT}/d"), ("Scale of a custom object", f"{CUSTOM}/l")])
async def test_a_webhook_changes_a_scale_and_nothing_else(admin: HttpAsker, hook: Hook, kind: str, path: str) -> None:
    await configure(admin, hook, TAKEN[kind][3])
    hook.answer = lambda request: patching({"op": "replace", "path": "/spec/replicas", "value": 3})
    code, body = await sent(admin, kind)
    assert (code, body["spec"]["replicas"]) == (200, 3)
    _, before = await admin("GET", path)
    assert before["spec"]["replicas"] == 3
    hook.answer = lambda request: patching({"op": "add", "path": "/spec/paused", "value": True})
    code, body = await sent(admin, kind)
    assert code == 500
    assert "its patch cannot be applied: no valid Scale" in body["message"]
    assert (await admin("GET", path))[1] == before


@pytest.mark.parametrize("kind", ["Binding", "Eviction", "TokenRequest", "Scale"])
async def test_a_webhook_does_not_change_what_it_is_for(admin: HttpAsker, hook: Hook, kind: str) -> None:
    await configure(admin, hook, TAKEN[kind][3])
    hook.answer = lambda request: patching({"op": "replace", "path": "/metadata/name", "value": "other"})
    code, body = await sent(admin, kind)
    assert code == 400
    assert "match" in body["message"]
    assert "nodeName" not in (await admin("GET", f"{PODS}/p"))[1]["spec"]


async def test_a_policy_changes_them_too(admin: HttpAsker) -> None:
    scale = policy(
        apply("Object{spec: Object.spec{replicas: 4}}"), resources="deployments/scale", group="apps", name="s"
    )
    node = "[JSONPatch{op: 'replace', path: '/target/name', value: 'other'}]"
    await bind(admin, scale, policy(patch(node), resources="pods/binding", name="b"))
    code, body = await sent(admin, "Scale")
    assert (code, body["spec"]["replicas"]) == (200, 4)
    assert (await sent(admin, "Binding"))[0] == 201
    assert (await admin("GET", f"{PODS}/p"))[1]["spec"]["nodeName"] == "other"
