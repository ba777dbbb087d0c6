"""Admission policies on a server: by every way of writing, and as they are checked when they are written themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.errors import ApiError
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import PODS, Asker, HttpAsker, claim, created, pod, serving
from tests.apiserver.reading import slice_

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys) as asker:
        yield asker


async def enforce(asker: HttpAsker, *expressions: str, actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    validations = [{"expression": expression} for expression in expressions]
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": validations, **spec}
    await created(asker, POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    binding = {"policyName": "p", "validationActions": list(actions)}
    await created(asker, BINDINGS, {"metadata": {"name": "b"}, "spec": binding})


async def test_every_way_of_writing_is_judged(admin: HttpAsker) -> None:
    await created(admin, CLAIMS, claim("old", labels={"keep": "yes"}))
    await enforce(admin, "has(object.metadata.labels) && 'keep' in object.metadata.labels")
    code, body = await admin("POST", CLAIMS, claim("new"))
    assert (code, body["reason"]) == (422, "Invalid")
    assert body["message"].startswith(
        "resourceclaims.resource.k8s.io \"new\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied"
    )
    _, old = await admin("GET", f"{CLAIMS}/old")
    without = {**old, "metadata": {**old["metadata"], "labels": {}}}
    away = {"metadata": {"labels": {"keep": None}}}
    applied = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim("new")}
    for code, body in (
        await admin("PUT", f"{CLAIMS}/old", without),
        await admin("PATCH", f"{CLAIMS}/old", away, content_type=MERGE),
        await admin("PATCH", f"{CLAIMS}/new?fieldManager=m", applied, content_type="application/apply-patch+yaml"),
        await admin("POST", f"{CLAIMS}?dryRun=All", claim("new")),
    ):
        assert (code, "denied request" in body["message"]) == (422, True)
    more = {"metadata": {"labels": {"more": "yes"}}}
    assert (await admin("PATCH", f"{CLAIMS}/old", more, content_type=MERGE))[0] == 200


async def test_the_short_way_of_patches_is_judged_too(admin: HttpAsker) -> None:
    """The cluster's own parts patch a status or metadata within the process, which takes a way of its own."""
    ask = Asker(admin.running.api)
    place = {"namespace": "default", "patch_type": MERGE}
    await ask.create(PODS, pod("p"), namespace="default")
    await enforce(admin, "object.status.phase != 'Failed'", "!has(object.metadata.finalizers)")
    with pytest.raises(ApiError, match=r"denied request: failed expression: object\.status\.phase"):
        await ask.patch(PODS, "p", {"status": {"phase": "Failed"}}, subresource="status", **place)
    with pytest.raises(ApiError, match=r"denied request: failed expression: !has\(object"):
        await ask.patch(PODS, "p", {"metadata": {"finalizers": ["example.com/f"]}}, **place)
    running = await ask.patch(PODS, "p", {"status": {"phase": "Running"}}, subresource="status", **place)
    assert running.status.phase == "Running"


async def test_deletions_are_judged_one_by_one(admin: HttpAsker) -> None:
    for name in ("a", "b"):
        await created(admin, CLAIMS, claim(name))
    await enforce(admin, "request.operation != 'DELETE' || oldObject.metadata.name != 'b'")
    assert (await admin("DELETE", f"{CLAIMS}/b"))[0] == 422
    code, body = await admin("DELETE", CLAIMS)
    assert (code, "denied request" in body["message"]) == (422, True)
    _, left = await admin("GET", CLAIMS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_a_warning_reaches_the_client(admin: HttpAsker) -> None:
    await enforce(admin, "object.metadata.name != 'w'", actions=("Warn",))
    async with admin.send("POST", CLAIMS, claim("w")) as response:
        assert response.status == 201
        text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: "
        assert response.headers["Warning"] == f"299 - \"{text}object.metadata.name != 'w'\""


async def test_a_policy_that_refuses_everything_can_be_taken_back(admin: HttpAsker) -> None:
    await enforce(admin, "false")
    assert (await admin("POST", CLAIMS, claim("c")))[0] == 422
    assert (await admin("DELETE", f"{BINDINGS}/b"))[0] == 200
    assert (await admin("DELETE", f"{POLICIES}/p"))[0] == 200
    assert (await admin("POST", CLAIMS, claim("c")))[0] == 201


async def test_a_driver_is_known_by_its_token(admin: HttpAsker) -> None:
    role = {"rules": [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]}]}
    await created(admin, f"{ROLES}/clusterroles", {"metadata": {"name": "r"}, **role})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    reference = {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    await created(
        admin, f"{ROLES}/clusterrolebindings", {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference}
    )
    await enforce(
        admin,
        "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][0].orValue('') == object.spec.nodeName",
        matchConditions=[{"name": "c", "expression": "request.userInfo.username.startsWith('system:serviceaccount:')"}],
    )
    _, token = await admin("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    unbound = {"authorization": f"Bearer {token['status']['token']}"}
    assert (await admin("POST", SLICES, slice_("s", "n1"), **unbound))[0] in (403, 422)
    node = {
        "impersonate_user": "system:serviceaccount:default:default",
        "impersonate_extra_authentication.kubernetes.io%2fnode_name": "n1",
    }
    assert (await admin("POST", SLICES, slice_("s", "n1"), **node))[0] == 201
    assert (await admin("POST", SLICES, slice_("t", "n1")))[0] == 201


async def test_expressions_must_compile(admin: HttpAsker) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [RULE]},
        "variables": [{"name": "a", "expression": "object.x"}, {"name": "b", "expression": "variables.c"}],
        "validations": [{"expression": "variables.a.y == variables.b", "messageExpression": "string(1) + 1"}],
    }
    code, body = await admin("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    assert code == 422
    assert [(cause["field"], cause["message"].splitlines()[0]) for cause in body["details"]["causes"]] == [
        (
            "spec.variables[1].expression",
            "Invalid value: \"variables.c\": compilation failed: ERROR: <input>:1:10: undefined field 'c'",
        ),
        (
            "spec.validations[0].messageExpression",
            'Invalid value: "string(1) + 1": compilation failed: ERROR: <input>:1:11: '
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
    ]
