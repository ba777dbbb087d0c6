"""What webhooks and policies see of subresources that take objects of a kind of their own, on a whole server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import RULE, Hook, hooking
from tests.apiserver.asking import HttpAsker, created, pod

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CORE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
PODS = {"group": "", "version": "v1", "resource": "pods"}
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}


@pytest.fixture
async def hook(keys: Keys) -> AsyncIterator[Hook]:
    async with hooking(keys) as hook:
        yield hook


async def watched(http: HttpAsker, hook: Hook, *resources: str, **fields: Any) -> None:
    """Let the webhook be asked about these resources."""
    rules = [{**RULE, "resources": list(resources)}]
    await created(http, f"{ADMISSION}/validatingwebhookconfigurations", hook.configuration(rules=rules, **fields))


async def forbid(http: HttpAsker, resource: str, expression: str, operation: str = "*") -> None:
    rule = {**RULE, "resources": [resource], "operations": [operation]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    await created(http, f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    await created(http, f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})


async def deployed(http: HttpAsker, replicas: int) -> Tree:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return await created(http, DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})


# Scale


async def test_a_webhook_sees_a_scale_before_and_after(http: HttpAsker, hook: Hook) -> None:
    deployment = await deployed(http, 3)
    await watched(http, hook, "deployments", "deployments/scale")
    scale = {"spec": {"replicas": 5}}
    code, body = await http("PATCH", f"{DEPLOYMENTS}/d/scale", scale, content_type=MERGE)
    assert (code, body["kind"], body["spec"]) == (200, "Scale", scale["spec"])
    (seen,) = hook.requests
    assert (seen["operation"], seen["subResource"], seen["name"]) == ("UPDATE", "scale", "d")
    assert (seen["kind"], seen["requestKind"]) == (SCALE, SCALE)
    assert seen["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    old, new = seen["oldObject"], seen["object"]
    assert (new["apiVersion"], new["kind"], old["kind"]) == ("autoscaling/v1", "Scale", "Scale")
    assert (old["spec"], new["spec"]) == ({"replicas": 3}, {"replicas": 5})
    assert new["status"]["selector"] == "app=a"
    assert new["metadata"]["uid"] == old["metadata"]["uid"] == deployment["metadata"]["uid"]


async def test_a_webhook_that_refuses_a_scale_keeps_the_replicas(http: HttpAsker, hook: Hook) -> None:
    await deployed(http, 3)
    hook.answer = lambda request: {"allowed": request["object"]["spec"]["replicas"] < 4, "status": {"message": "many"}}
    await watched(http, hook, "deployments/scale")
    code, body = await http("PUT", f"{DEPLOYMENTS}/d/scale", {"metadata": {"name": "d"}, "spec": {"replicas": 4}})
    assert (code, body["message"]) == (400, 'admission webhook "check.example.com" denied the request: many')
    assert (await http("GET", f"{DEPLOYMENTS}/d"))[1]["spec"]["replicas"] == 3
    assert (await http("PUT", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 2}}))[0] == 200
    _, scaled = await http("GET", f"{DEPLOYMENTS}/d")
    assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (2, 2)


async def test_a_policy_judges_a_scale(http: HttpAsker) -> None:
    await deployed(http, 3)
    await forbid(http, "deployments/scale", "object.spec.replicas <= oldObject.spec.replicas + 1")
    scale = {"spec": {"replicas": 5}}
    assert (await http("PATCH", f"{DEPLOYMENTS}/d/scale", scale, content_type=MERGE))[0] == 422
    assert (await http("PATCH", f"{DEPLOYMENTS}/d", scale, content_type=MERGE))[0] == 200


async def test_conditions_see_a_scale_too(http: HttpAsker, hook: Hook) -> None:
    await deployed(http, 3)
    shrinks = {"name": "shrinks", "expression": "request.kind.kind == 'Scale' && object.spec.replicas < 3"}
    await watched(http, hook, "*/scale", matchConditions=[shrinks])
    for replicas in (4, 1):
        assert (await http("PUT", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": replicas}}))[0] == 200
    assert [seen["object"]["spec"]["replicas"] for seen in hook.requests] == [1]


# Eviction


async def test_an_eviction_is_judged_and_not_the_deletion(http: HttpAsker, hook: Hook) -> None:
    await created(http, f"{CORE}/pods", pod("p"))
    await watched(http, hook, "pods", "pods/eviction")
    hook.answer = lambda request: {"allowed": True, "warnings": [request["operation"]]}
    body = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 3}}
    async with http.send("POST", f"{CORE}/pods/p/eviction", body) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == ['299 - "CREATE"']
    (evicted,) = hook.requests
    kind = {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert (evicted["operation"], evicted["subResource"], evicted["name"]) == ("CREATE", "eviction", "p")
    assert (evicted["kind"], evicted["resource"]) == (kind, PODS)
    assert (evicted["object"]["apiVersion"], evicted["object"]["kind"]) == ("policy/v1", "Eviction")
    assert evicted["object"]["metadata"] == {"name": "p", "namespace": "default"}
    assert evicted["object"]["deleteOptions"]["gracePeriodSeconds"] == 3
    assert "oldObject" not in evicted
    assert (await http("GET", f"{CORE}/pods/p"))[0] == 404


async def test_an_eviction_that_is_refused_deletes_nothing(http: HttpAsker) -> None:
    await created(http, f"{CORE}/pods", pod("p"))
    await forbid(http, "pods/eviction", "object.metadata.name != 'p' || request.dryRun", "CREATE")
    assert (await http("POST", f"{CORE}/pods/p/eviction", {}))[0] == 422
    rehearsed = {"deleteOptions": {"dryRun": ["All"]}}
    assert (await http("POST", f"{CORE}/pods/p/eviction", rehearsed))[0] == 201
    assert (await http("GET", f"{CORE}/pods/p"))[0] == 200
    assert (await http("DELETE", f"{CORE}/pods/p"))[0] == 200


# Binding


@pytest.mark.parametrize(
    ("path", "resource", "subresource"), [("pods/p/binding", "pods", "binding"), ("bindings", "bindings", None)]
)
async def test_a_webhook_sees_the_binding_of_a_pod(
    http: HttpAsker, hook: Hook, path: str, resource: str, subresource: str | None
) -> None:
    await created(http, f"{CORE}/pods", pod("p"))
    await watched(http, hook, "pods/binding", "bindings")
    hook.answer = lambda request: {"allowed": request["object"]["target"]["name"] != "full"}
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "full"}}
    assert (await http("POST", f"{CORE}/{path}", binding))[0] == 400
    await created(http, f"{CORE}/{path}", {**binding, "target": {"kind": "Node", "name": "n1"}})
    seen = hook.requests[-1]
    assert (seen["operation"], seen.get("subResource"), seen["name"]) == ("CREATE", subresource, "p")
    assert seen["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert seen["resource"] == {**PODS, "resource": resource}
    assert (seen["object"]["apiVersion"], seen["object"]["kind"]) == ("v1", "Binding")
    assert seen["object"]["metadata"] == {"name": "p", "namespace": "default"}
    assert seen["object"]["target"] == {"kind": "Node", "name": "n1"}
    assert "oldObject" not in seen
    assert (await http("GET", f"{CORE}/pods/p"))[1]["spec"]["nodeName"] == "n1"


# Tokens


async def test_a_webhook_sees_what_token_is_asked_for(http: HttpAsker, hook: Hook) -> None:
    await watched(http, hook, "serviceaccounts/token")
    await created(http, f"{CORE}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 600}})
    (seen,) = hook.requests
    assert seen["kind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert seen["resource"]["resource"] == "serviceaccounts"
    assert seen["object"]["spec"]["expirationSeconds"] == 600
    assert seen["object"]["metadata"] == {"name": "default", "namespace": "default"}


# Namespaces


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("pods/p/eviction", {}),
        ("pods/p/binding", {"target": {"kind": "Node", "name": "n1"}}),
        ("bindings", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}),
        ("serviceaccounts/default/token", {}),
    ],
)
async def test_nothing_is_posted_to_subresources_in_a_namespace_that_goes(
    http: HttpAsker, path: str, body: Tree
) -> None:
    namespace = "/api/v1/namespaces/going"
    await created(http, "/api/v1/namespaces", {"metadata": {"name": "going"}})
    await created(http, f"{namespace}/pods", pod("p"))
    await http("DELETE", namespace)
    code, refusal = await http("POST", f"{namespace}/{path}", body)
    assert (code, refusal["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert "nodeName" not in (await http("GET", f"{namespace}/pods/p"))[1]["spec"]
