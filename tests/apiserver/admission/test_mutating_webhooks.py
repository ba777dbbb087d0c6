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


async def test_selectors_see_what_earlier_webhooks_made(admin: HttpAsker, hook: Hook) -> None:
    hook.answer = lambda request: patching({"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}})
    await configure(admin, hook, "a.example.com")
    await configure(admin, hook, "b.example.com", objectSelector={"matchLabels": {"by": "hook"}})
    assert (await admin("POST", PODS, pod("p")))[0] == 201
    assert [request["object"]["metadata"].get("labels") for request in hook.requests] == [None, {"by": "hook"}]


async def test_a_webhook_that_was_not_asked_is_not_asked_again(admin: HttpAsker, hook: Hook) -> None:
    hook.answer = lambda request: patching({"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}})
    selector = {"matchLabels": {"by": "hook"}}
    await configure(admin, hook, "a.example.com", reinvocationPolicy="IfNeeded", objectSelector=selector)
    await configure(admin, hook, "b.example.com")
    assert (await admin("POST", PODS, pod("p")))[0] == 201
    assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"allowed": True, "patchType": "JSONPatch", "patch": "bm8="}, "received undecodable patch"),
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


CONFIG = "/api/v1/namespaces/default/configmaps"
EVERYWHERE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
FAKE_UID = "11111111-1111-1111-1111-111111111111"


def setting(field: str, value: object) -> Tree:
    return patching({"op": "add", "path": f"/metadata/{field}", "value": value})


async def config_mutated(admin: HttpAsker, hook: Hook, answer: Tree, policy: str = "Fail") -> tuple[int, Any]:
    """Creates a ConfigMap `c` that the webhook answers so about."""
    hook.answer = lambda request: answer
    await created(
        admin,
        CONFIGURATIONS,
        {
            **hook.configuration("change.example.com", rules=[EVERYWHERE], failurePolicy=policy),
            "kind": "MutatingWebhookConfiguration",
        },
    )
    return await admin("POST", CONFIG, {"metadata": {"name": "c"}, "data": {"a": "b"}})


async def listed(admin: HttpAsker) -> list[str]:
    """Names of the test's ConfigMaps; each must be found under its name."""
    _, body = await admin("GET", CONFIG)
    names = [item["metadata"]["name"] for item in body["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]
    for name in names:
        assert (await admin("GET", f"{CONFIG}/{name}"))[0] == 200, name
    return names


async def test_an_object_is_stored_under_the_name_that_a_webhook_gives_it(admin: HttpAsker, hook: Hook) -> None:
    code, body = await config_mutated(admin, hook, setting("name", "renamed"))
    assert (code, body["metadata"]["name"]) == (201, "renamed")
    assert await listed(admin) == ["renamed"]
    code, body = await admin("POST", CONFIG, {"metadata": {"name": "c"}})
    assert (code, body["message"]) == (409, 'configmaps "renamed" already exists')
    code, body = await admin("POST", CONFIG, {"metadata": {"generateName": "c-"}})
    assert (code, body["message"]) == (409, 'configmaps "renamed" already exists')


async def test_a_name_that_a_webhook_gives_is_checked(admin: HttpAsker, hook: Hook) -> None:
    code, body = await config_mutated(admin, hook, setting("name", "Not/A Name"))
    assert (code, body["details"]["causes"][0]["field"]) == (422, "metadata.name")
    assert await listed(admin) == []


async def test_a_webhook_cannot_move_a_new_object_to_another_namespace(admin: HttpAsker, hook: Hook) -> None:
    code, body = await config_mutated(admin, hook, setting("namespace", "kube-system"))
    text = "the namespace of the provided object does not match the namespace sent on the request"
    assert (code, body["message"]) == (400, text)
    assert await listed(admin) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("uid", FAKE_UID),
        ("creationTimestamp", "2001-01-01T00:00:00Z"),
        ("deletionTimestamp", "2001-01-01T00:00:00Z"),
        ("deletionGracePeriodSeconds", 7),
    ],
)
async def test_a_webhook_does_not_choose_what_the_server_gives(
    admin: HttpAsker, hook: Hook, field: str, value: object
) -> None:
    code, body = await config_mutated(admin, hook, setting(field, value))
    assert code == 201, body
    assert body["metadata"].get(field) != value
    assert "deletionTimestamp" not in body["metadata"]
    assert await listed(admin) == ["c"]


async def test_a_webhook_gives_a_new_object_no_version(admin: HttpAsker, hook: Hook) -> None:
    code, body = await config_mutated(admin, hook, setting("resourceVersion", "7"))
    assert (code, body["message"]) == (400, "resourceVersion should not be set on objects to be created")


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "APPLY"])
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("name", "renamed", 422),
        ("namespace", "kube-system", 400),
        ("uid", FAKE_UID, 422),
        ("resourceVersion", "1", 409),
        ("creationTimestamp", "2001-01-01T00:00:00Z", 200),
        ("deletionTimestamp", "2001-01-01T00:00:00Z", 422),
    ],
)
async def test_a_webhook_does_not_change_the_identity_of_an_object(
    admin: HttpAsker, hook: Hook, verb: str, field: str, value: object, code: int
) -> None:
    _, before = await config_mutated(admin, hook, {"allowed": True})
    hook.answer = lambda request: setting(field, value)
    if verb == "PUT":
        answered = await admin("PUT", f"{CONFIG}/c", {"metadata": {"name": "c"}, "data": {"a": "c"}})
    elif verb == "PATCH":
        merge = {"content_type": "application/merge-patch+json"}
        answered = await admin("PATCH", f"{CONFIG}/c", {"data": {"a": "c"}}, **merge)
    else:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "c"}}
        path = f"{CONFIG}/c?fieldManager=m&force=true"
        answered = await admin("PATCH", path, tree, content_type="application/apply-patch+yaml")
    assert answered[0] == code, answered
    assert await listed(admin) == ["c"]
    _, after = await admin("GET", f"{CONFIG}/c")
    for kept in ("uid", "creationTimestamp"):
        assert after["metadata"][kept] == before["metadata"][kept]
    assert "deletionTimestamp" not in after["metadata"]
    assert after["data"] == {"a": "c" if code == 200 else "b"}


async def test_a_webhook_that_removes_the_namespace_changes_nothing(admin: HttpAsker, hook: Hook) -> None:
    await config_mutated(admin, hook, {"allowed": True})
    hook.answer = lambda request: patching({"op": "remove", "path": "/metadata/namespace"})
    code, body = await admin("PUT", f"{CONFIG}/c", {"metadata": {"name": "c"}, "data": {"a": "c"}})
    assert (code, body["metadata"].get("namespace"), body["data"]) == (200, "default", {"a": "c"})


async def test_an_object_that_is_applied_for_the_first_time_keeps_its_name(admin: HttpAsker, hook: Hook) -> None:
    await config_mutated(admin, hook, {"allowed": True})
    hook.answer = lambda request: setting("name", "renamed")
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}
    code, body = await admin("PATCH", f"{CONFIG}/d?fieldManager=m", tree, content_type="application/apply-patch+yaml")
    assert (code, body["reason"]) == (400, "BadRequest")
    assert await listed(admin) == ["c"]


def raw(patch: bytes) -> Tree:
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"no"),
        raw(b'{"op": "add"}'),
        raw(b"[7]"),
        raw(b"\xff"),
        raw(b"[" * 100_000),
        {**raw(b"[]"), "patch": "%%%"},
        {**raw(b"[]"), "patchType": "Merge"},
    ],
)
async def test_a_patch_that_cannot_be_decoded_obeys_the_failure_policy(
    admin: HttpAsker, hook: Hook, answer: Tree
) -> None:
    code, body = await config_mutated(admin, hook, answer)
    assert (code, body["reason"]) == (500, "InternalError")
    assert 'failed calling webhook "change.example.com"' in body["message"]
    await admin("DELETE", f"{CONFIGURATIONS}/change.example.com")
    code, body = await config_mutated(admin, hook, answer, policy="Ignore")
    assert (code, body.get("data")) == (201, {"a": "b"}), body


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "", "value": {}},
        {"op": "replace", "path": "", "value": []},
        {"op": "replace", "path": "", "value": None},
        {"op": "remove", "path": "/metadata"},
        {"op": "remove", "path": "/kind"},
        {"op": "replace", "path": "/kind", "value": "Secret"},
        {"op": "replace", "path": "/metadata", "value": "text"},
        {"op": "replace", "path": "/metadata", "value": [1]},
        {"op": "add", "path": "/data", "value": 7},
        {"op": "add", "path": "/metadata/labels", "value": {"a": {"b": 1}}},
        {"op": "remove", "path": "/missing"},
        {"op": "dance", "path": "/data"},
    ],
)
async def test_a_patch_that_makes_no_object_is_an_internal_error(
    admin: HttpAsker, hook: Hook, operation: Tree, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, body = await config_mutated(admin, hook, patching(operation), policy=policy)
    assert (code, body["reason"]) == (500, "InternalError"), body
    assert 'webhook "change.example.com": its patch cannot be applied: ' in body["message"]
    assert not [record for record in caplog.records if record.exc_info]
    assert await listed(admin) == []
