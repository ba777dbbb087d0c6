"""All guards at once, on a socket: certificates, tokens, impersonation, roles, nodes, quota."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.api.gates import FeatureGates
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, serving
from tests.apiserver.reading import (
    account_subject,
    binding,
    claim,
    exactly,
    namespace,
    pod,
    role,
    rule,
    slice_,
)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ROBOT = "system:serviceaccount:default:robot"
NODE_HEADER = "impersonate_extra_authentication.kubernetes.io%2fnode_name"


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    async with serving(keys, gates=FeatureGates.parse("DRAResourcePoolStatus=true")) as asker:
        yield asker


@asynccontextmanager
async def certified(admin: HttpAsker, keys: Keys, directory: Path, name: str, *groups: str) -> AsyncIterator[HttpAsker]:
    """Asks with a client certificate instead of a token."""
    pair = keys.client(name, groups)
    certificate, key = directory / "client.crt", directory / "client.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context = ssl.create_default_context(cafile=str(keys.authority_file))
    context.load_cert_chain(certificate, key)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield HttpAsker(admin.url, session, admin.running, "")


async def create(asker: HttpAsker, path: str, tree: dict[str, Any], **headers: str) -> Any:
    code, body = await asker("POST", path, tree, **headers)
    assert code == 201, body
    return body


async def whoami(asker: HttpAsker, **headers: str) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return (await create(asker, WHOAMI, review, **headers))["status"]["userInfo"]


async def test_without_identity_there_is_no_answer(admin: HttpAsker) -> None:
    for header in ("", "Bearer wrong", "Basic YTpi"):
        code, body = await admin("GET", SLICES, authorization=header)
        assert (code, body["reason"]) == (401, "Unauthorized")


async def test_client_certificate_names_user_and_groups(admin: HttpAsker, keys: Keys, tmp_path: Path) -> None:
    async with certified(admin, keys, tmp_path, "jane", "devs") as jane:
        assert await whoami(jane) == {"username": "jane", "groups": ["devs", "system:authenticated"]}
        code, body = await jane("GET", CLAIMS + "/c")
        assert code == 403
        assert body["message"] == (
            'resourceclaims.resource.k8s.io "c" is forbidden: User "jane" cannot get resource "resourceclaims" in API '
            'group "resource.k8s.io" in the namespace "default"'
        )


async def test_certificate_of_a_stranger_is_refused(admin: HttpAsker, keys: Keys, tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    stranger = Keys.open(tmp_path / "stranger").client("root", ["system:masters"])
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    certificate.write_bytes(stranger.certificate)
    key.write_bytes(stranger.key)
    context = ssl.create_default_context(cafile=str(keys.authority_file))
    context.load_cert_chain(certificate, key)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        asker = HttpAsker(admin.url, session, admin.running, "")
        with pytest.raises(aiohttp.ClientError):
            await asker("GET", SLICES)


async def test_namespace_comes_furnished(admin: HttpAsker) -> None:
    await create(admin, "/api/v1/namespaces", namespace("fresh"))
    for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        code, _ = await admin("GET", f"/api/v1/namespaces/fresh/{path}")
        assert code == 200


async def test_service_account_token_is_worth_its_roles(admin: HttpAsker) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await create(admin, accounts, {"metadata": {"name": "robot"}})
    answer = await create(admin, f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    token = f"Bearer {answer['status']['token']}"
    assert (await whoami(admin, authorization=token))["username"] == ROBOT
    assert (await admin("GET", CLAIMS, authorization=token))[0] == 403
    grant = role("reader", rule("list", "resourceclaims", "resource.k8s.io"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/roles", grant)
    bound = binding("robot", "reader", account_subject("robot", "default"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/rolebindings", bound)
    assert (await admin("GET", CLAIMS, authorization=token))[0] == 200
    await admin("DELETE", f"{accounts}/robot")
    assert (await admin("GET", CLAIMS, authorization=token))[0] == 401


async def test_impersonated_driver_keeps_to_its_node(admin: HttpAsker) -> None:
    """What a driver's pod may do, tried by an administrator with extra fields."""
    grant = role("driver", rule("get list watch create update patch delete", "resourceslices", "resource.k8s.io"))
    await create(admin, f"{RBAC}/clusterroles", grant)
    await create(admin, f"{RBAC}/clusterrolebindings", binding("driver", "driver", account_subject("robot", "default")))
    driver = {"impersonate_user": ROBOT, NODE_HEADER: "n1"}
    assert (await whoami(admin, **driver))["extra"] == {"authentication.kubernetes.io/node-name": ["n1"]}
    await create(admin, SLICES, slice_("own", "n1"), **driver)
    for tree, what in (
        (slice_("other", "n2"), "resourceslices on node 'n2'"),
        (slice_("all"), "cluster resourceslices"),
    ):
        text = f"this user running on node 'n1' may not modify {what}"
        code, body = await admin("POST", SLICES, tree, **driver)
        assert (code, text in body["message"]) == (403, True)
        stored = await create(admin, SLICES, tree)
        name = tree["metadata"]["name"]
        code, body = await admin("PUT", f"{SLICES}/{name}", stored, **driver)
        assert (code, text in body["message"]) == (403, True)
        code, body = await admin("DELETE", f"{SLICES}/{name}", **driver)
        assert (code, text in body["message"]) == (403, True)
    assert (await admin("DELETE", f"{SLICES}/own", **driver))[0] == 200


async def test_node_reaches_its_own(admin: HttpAsker, keys: Keys, tmp_path: Path) -> None:
    await create(admin, SLICES, slice_("own", "n1"))
    await create(admin, SLICES, slice_("other", "n2"))
    for where in ("n1", "n2"):
        await create(admin, "/api/v1/namespaces/default/pods", pod(f"on-{where}", node=where))
    async with certified(admin, keys, tmp_path, "system:node:n1", "system:nodes") as node:
        assert (await node("GET", SLICES))[0] == 403
        code, body = await node("GET", SLICES + "?fieldSelector=spec.nodeName%3Dn1")
        assert (code, [item["metadata"]["name"] for item in body["items"]]) == (200, ["own"])
        assert (await node("DELETE", SLICES + "?fieldSelector=spec.nodeName%3Dn2"))[0] == 403
        assert (await node("POST", SLICES, slice_("stray", "n2")))[0] == 403
        await create(node, SLICES, slice_("second", "n1"))
        assert (await node("DELETE", SLICES + "?fieldSelector=spec.nodeName%3Dn1"))[0] == 200
        status = {"status": {"phase": "Running"}}
        merge = {"content_type": "application/merge-patch+json"}
        pods = "/api/v1/namespaces/default/pods"
        assert (await node("PATCH", f"{pods}/on-n1/status", status, **merge))[0] == 200
        code, body = await node("PATCH", f"{pods}/on-n2/status", status, **merge)
        assert (code, "spec.nodeName set to itself" in body["message"]) == (403, True)
    assert (await admin("GET", f"{SLICES}/other"))[0] == 200
    assert (await admin("GET", f"{SLICES}/own"))[0] == 404


async def test_node_gets_tokens_for_its_pods_only(admin: HttpAsker, keys: Keys, tmp_path: Path) -> None:
    pods, accounts = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
    mine = await create(admin, pods, pod("mine", node="n1"))
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": mine["metadata"]["uid"]}
    async with certified(admin, keys, tmp_path, "system:node:n1", "system:nodes") as node:
        answer = await create(node, f"{accounts}/default/token", {"spec": {"boundObjectRef": bound}})
        extra = (await whoami(admin, authorization=f"Bearer {answer['status']['token']}"))["extra"]
        assert extra["authentication.kubernetes.io/node-name"] == ["n1"]
        assert extra["authentication.kubernetes.io/pod-name"] == ["mine"]
        code, body = await node("POST", f"{accounts}/default/token", {"spec": {}})
        assert (code, "not bound to a pod" in body["message"]) == (403, True)
    async with certified(admin, keys, tmp_path, "system:node:n2", "system:nodes") as other:
        assert (await other("POST", f"{accounts}/default/token", {"spec": {"boundObjectRef": bound}}))[0] == 403


async def test_quota_holds_under_concurrent_requests(admin: HttpAsker) -> None:
    name = "gpu.deviceclass.resource.k8s.io/devices"
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {name: "10"}}}
    await create(admin, "/api/v1/namespaces/default/resourcequotas", quota)
    answers = await asyncio.gather(
        *(admin("POST", CLAIMS, claim(f"c{number}", exactly("r", count=2))) for number in range(20))
    )
    assert sorted(code for code, _ in answers) == [201] * 5 + [403] * 15
    texts = {body["message"].split("forbidden: ")[1] for code, body in answers if code == 403}
    assert texts == {f"exceeded quota: q, requested: {name}=2, used: {name}=10, limited: {name}=10"}
    _, body = await admin("GET", "/api/v1/namespaces/default/resourcequotas/q")
    assert body["status"] == {"hard": {name: "10"}, "used": {name: "10"}}


async def test_pool_status_requests_have_a_pace(admin: HttpAsker) -> None:
    path = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
    codes = []
    for number in range(21):
        tree = {"metadata": {"name": f"r{number}"}, "spec": {"driver": "gpu.example.com"}}
        async with admin.send("POST", path, tree) as response:
            codes.append(response.status)
            retry = response.headers.get("Retry-After")
    assert codes == [201] * 20 + [429]
    assert retry is not None
    assert 1 <= int(retry) <= 6


async def test_a_role_that_an_update_makes_gives_no_more_than_its_maker_has(admin: HttpAsker) -> None:
    grant = role("roles", rule("get create update", "roles", "rbac.authorization.k8s.io"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/roles", grant)
    bound = binding("roles", "roles", account_subject("robot", "default"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/rolebindings", bound)
    greedy = role("greedy", rule("get", "secrets"), namespace="default")
    modest = role("modest", rule("get", "roles", "rbac.authorization.k8s.io"), namespace="default")
    for tree, wanted in ((greedy, 403), (modest, 201)):
        url = f"{RBAC}/namespaces/default/roles/{tree['metadata']['name']}"
        code, body = await admin("PUT", url, tree, impersonate_user=ROBOT)
        assert code == wanted, body


async def test_creating_by_another_verb_needs_permission_to_create(admin: HttpAsker) -> None:
    grant = role("changer", rule("get update patch", "leases", "coordination.k8s.io"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/roles", grant)
    bound = binding("changer", "changer", account_subject("robot", "default"), namespace="default")
    await create(admin, f"{RBAC}/namespaces/default/rolebindings", bound)
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    tree = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    robot = {"impersonate_user": ROBOT}
    apply = {"content_type": "application/apply-patch+yaml", **robot}
    for code, body in (
        await admin("PUT", f"{leases}/l", tree, **robot),
        await admin("PATCH", f"{leases}/l?fieldManager=m", tree, **apply),
    ):
        assert (code, "cannot create" in body["message"]) == (403, True)
    await create(admin, leases, tree)
    assert (await admin("PATCH", f"{leases}/l?fieldManager=m", tree, **apply))[0] == 200
