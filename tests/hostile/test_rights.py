"""What nodes, and those who may write roles, can do to get more than they were given."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.apiserver.reading import RBAC
from tests.hostile.attackers import DISGUISED, PODS, Attacked, head, measured, posted
from tests.objects import pod
from tests.waiting import within

SECRETS = "/api/v1/namespaces/default/secrets"
ROLES = f"/apis/{RBAC}/v1/clusterroles"
KUBERNETES = "kubernetes.io/kube-apiserver"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
MERGE = {"content_type": "application/merge-patch+json"}
JSON_PATCH = {"content_type": "application/json-patch+json"}


@pytest.fixture
async def secret(server: Attacked) -> str:
    """A secret `db` in two namespaces, of which a pod on the node uses the one in `default`."""
    await posted(server.admin, "/api/v1/namespaces", {"metadata": {"name": "other"}})
    for namespace in ("default", "other"):
        data = {"password": base64.b64encode(namespace.encode()).decode()}
        path = f"/api/v1/namespaces/{namespace}/secrets"
        await posted(server.admin, path, {"metadata": {"name": "db"}, "data": data})
    return "db"


USES_SECRET = {"volumes": [{"name": "v", "secret": {"secretName": "db"}}]}


async def test_a_mirror_pod_opens_no_secret(server: Attacked, secret: str) -> None:
    node = server.user("node")
    assert (await node("GET", f"{SECRETS}/{secret}"))[0] == 403
    _, itself = await node("GET", "/api/v1/nodes/n1")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": itself["metadata"]["uid"], "controller": True}
    mirror = pod("m", node="n1", automountServiceAccountToken=False)
    mirror["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    greedy = {**mirror, "spec": {**mirror["spec"], **USES_SECRET}}
    code, body = await node("POST", PODS, greedy)
    assert (code, "can not create pods that reference secrets" in body["message"]) == (403, True)
    await posted(node, PODS, mirror)
    # Nor does one that somebody else has written.
    await posted(server.admin, PODS, {**greedy, "metadata": {**mirror["metadata"], "name": "greedy"}})
    assert (await node("GET", f"{SECRETS}/{secret}"))[0] == 403


async def test_a_secret_is_read_in_its_namespace_only(server: Attacked, secret: str) -> None:
    node = server.user("node")
    await posted(server.admin, PODS, pod("uses", node="n1", **USES_SECRET))
    assert (await node("GET", f"{SECRETS}/{secret}"))[0] == 200
    selector = "fieldSelector=metadata.name%3Ddb"
    assert (await node("GET", f"{SECRETS}?{selector}"))[0] == 200
    for path in (f"/api/v1/secrets?{selector}", f"/api/v1/secrets?watch=1&{selector}", "/api/v1/secrets"):
        assert (await node("GET", path))[0] == 403
    assert (await node("GET", f"/api/v1/namespaces/other/secrets/{secret}"))[0] == 403


async def test_a_node_sees_no_status_of_others(server: Attacked) -> None:
    node = server.user("node")
    await posted(server.admin, "/api/v1/nodes", {"metadata": {"name": "n2"}})
    await posted(server.admin, PODS, pod("elsewhere", node="n2"))
    guess = [{"op": "test", "path": "/spec/containers/0/image", "value": "x"}]
    for path in (f"{PODS}/elsewhere/status", "/api/v1/nodes/n2/status", "/api/v1/nodes/n2"):
        assert (await node("GET", path))[0] == 403
        assert (await node("PATCH", path, guess, **JSON_PATCH))[0] == 403
        assert (await node("PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, **MERGE))[0] == 403


async def test_a_node_neither_deletes_nor_promotes_itself(server: Attacked) -> None:
    node, itself = server.user("node"), "/api/v1/nodes/n1"
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
    for change in (
        {"ownerReferences": [gone]},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"labels": {"node-restriction.kubernetes.io/trusted": "yes"}},
    ):
        for path in (itself, f"{itself}/status"):
            assert (await node("PATCH", path, {"metadata": change}, **MERGE))[0] == 403
    assert (await node("DELETE", itself))[0] == 403
    assert (await node("PATCH", itself, {"metadata": {"labels": {"rack": "7"}}}, **MERGE))[0] == 200


async def test_whoever_patches_roles_does_not_become_administrator(server: Attacked) -> None:
    attacker = server.user("roles")
    label = {"metadata": {"labels": {f"{RBAC}/aggregate-to-view": "true"}}}
    code, body = await attacker("PATCH", f"{ROLES}/cluster-admin", label, **MERGE)
    assert (code, "not currently held" in body["message"]) == (403, True)
    code, body = await attacker("PATCH", f"{ROLES}/view", {"aggregationRule": None}, **MERGE)
    assert (code, "must have cluster-admin privileges" in body["message"]) == (403, True)
    wide = {"aggregationRule": {"clusterRoleSelectors": [{}]}}
    assert (await attacker("PATCH", f"{ROLES}/view", wide, **MERGE))[0] == 403
    assert (await attacker("PATCH", f"{ROLES}/cluster-admin", {"metadata": {"labels": {"a": "b"}}}, **MERGE))[0] == 200
    assert (await server.user("viewer")("DELETE", "/api/v1/namespaces/kube-system"))[0] == 403


async def granted(server: Attacked, user: str, *rules: dict[str, Any]) -> None:
    await posted(server.admin, ROLES, {"metadata": {"name": user}, "rules": [*rules]})
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    await posted(server.admin, f"/apis/{RBAC}/v1/clusterrolebindings", binding)


async def test_a_right_to_the_empty_name_grants_no_right_to_every_name(server: Attacked) -> None:
    secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    writes = {"verbs": ["create"], "apiGroups": [RBAC], "resources": ["clusterroles", "clusterrolebindings"]}
    await granted(server, "nobody", {**secrets, "resourceNames": [""]}, writes)
    attacker = server.user("nobody")
    code, body = await attacker("POST", ROLES, {"metadata": {"name": "wide"}, "rules": [secrets]})
    assert (code, "not currently held" in body["message"]) == (403, True)
    await posted(server.admin, ROLES, {"metadata": {"name": "reads-secrets"}, "rules": [secrets]})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reads-secrets"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": "nobody"}
    binding = {"metadata": {"name": "wide"}, "roleRef": reference, "subjects": [subject]}
    assert (await attacker("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding))[0] == 403
    narrow = {"metadata": {"name": "narrow"}, "rules": [{**secrets, "resourceNames": [""]}]}
    await posted(attacker, ROLES, narrow)


@pytest.mark.parametrize("what", ["exec?command=ls&stdout=1", "attach?stdout=1", "portforward?ports=80"])
async def test_whoever_may_get_a_stream_does_not_open_one(server: Attacked, what: str) -> None:
    streams = ["pods/exec", "pods/attach", "pods/portforward"]
    await granted(server, "nobody", {"verbs": ["get", "list"], "apiGroups": [""], "resources": streams})
    await posted(server.admin, PODS, pod("p", node="n1"))
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13", "sec_websocket_key": "x"}
    code, body = await server.user("nobody")("GET", f"{PODS}/p/{what}", **upgrade)
    assert (code, "cannot create resource" in body["message"]) == (403, True)
    code, body = await server.user("editor")("GET", f"{PODS}/p/{what}", **upgrade)
    assert (code, "has no address" in body["message"]) == (503, True)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
async def test_no_disguise_of_a_path_leads_past_rights(server: Attacked, method: str) -> None:
    await posted(
        server.admin, "/api/v1/namespaces/default/secrets", {"metadata": {"name": "db"}, "data": {"k": "c2VjcmV0"}}
    )
    await posted(server.admin, PODS, pod("p", node="n1"))
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: x\r\n"
    for path in DISGUISED:
        for more in (b"", upgrade):
            async with server.connection() as (reader, writer):  # other clients would put the path straight
                said = head(method, path, "viewer", content_length=0, connection="close")
                writer.write(said.removesuffix(b"\r\n") + more + b"\r\n" if more else said)
                line = await within(reader.readline())
                assert line.split()[1] in (b"400", b"403", b"404", b"405"), (path, line)
                assert b"c2VjcmV0" not in await within(reader.read())


async def test_what_nodes_tell_is_passed_on_by_get_alone_and_to_whom_it_is_granted(server: Attacked) -> None:
    path = "/api/v1/nodes/n1/proxy/exec/default/p/c"
    await granted(server, "nobody", {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes/proxy"]})
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await server.user("nobody")(method, path))[0] == 405, method
    assert (await server.user("nobody")("GET", path))[0] == 503
    for user in ("viewer", "editor", "node"):
        for method in ("GET", "POST"):
            assert (await server.user(user)(method, path))[0] == 403, user


def signing_request(name: str, signer: str, group: str = "") -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes)).sign(key, hashes.SHA256())
    data = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    return {"metadata": {"name": name}, "spec": {"request": data, "signerName": signer, "usages": ["client auth"]}}


async def test_certificates_are_approved_and_signed_by_those_whom_their_signer_trusts(server: Attacked) -> None:
    path, signers = "/apis/certificates.k8s.io/v1/certificatesigningrequests", {"apiGroups": ["certificates.k8s.io"]}
    parts = {
        "verbs": ["update", "patch"],
        "resources": [f"{path.rpartition('/')[2]}/{p}" for p in ("approval", "status")],
    }
    mine = {"verbs": ["approve", "sign"], "resources": ["signers"], "resourceNames": ["mine.com/*"]}
    await granted(server, "nobody", {**signers, **parts}, {**signers, **mine})
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}}
    for name, signer, code in (("a", "mine.com/x", 200), ("b", "other.com/x", 403)):
        await posted(server.admin, path, signing_request(name, signer))
        found, body = await server.user("nobody")("PATCH", f"{path}/{name}/approval", approved, **MERGE)
        assert (found, code == 200 or "not permitted to approve" in body["message"]) == (code, True)
        change = {"status": {"certificate": base64.b64encode(CERTIFICATE).decode()}}
        found, body = await server.user("nobody")("PATCH", f"{path}/{name}/status", change, **MERGE)
        assert (found, code == 200 or "not permitted to sign" in body["message"]) == (code, True), body
    code, body = await server.admin("POST", path, signing_request("m", f"{KUBERNETES}-client", "system:masters"))
    assert (code, "system:masters group is not allowed" in body["message"]) == (403, True)
    assert (await server.admin("POST", path, signing_request("v", f"{KUBERNETES}-client", "viewers")))[0] == 201


async def test_a_role_that_multiplies_is_refused_and_a_long_one_compared_in_turns(server: Attacked) -> None:
    attacker, path = server.user("roles"), f"{ROLES}/roles"
    held = {"apiGroups": [RBAC], "resources": ["clusterroles"]}
    for rule, code in (
        ({**held, "verbs": ["get"] * 5000, "resources": ["clusterroles"] * 5000, "apiGroups": [RBAC] * 5000}, 422),
        ({"verbs": ["get"] * 200, "nonResourceURLs": ["/x"] * 200}, 422),
        ({**held, "verbs": ["get", "list"], "resourceNames": [f"n{number}" for number in range(5000)]}, 200),
        ({**held, "verbs": ["get", "delete"], "resourceNames": [f"n{number}" for number in range(5000)]}, 403),
    ):
        async with measured() as stall:
            found, body = await attacker("PATCH", f"{path}?dryRun=All", {"rules": [rule]}, **MERGE)
        assert found == code, body
        assert stall.longest < 0.25


async def test_an_insecure_server_answers_no_web_page(keys: Any) -> None:
    from tests.apiserver.asking import serving

    async with serving(keys, secure=False) as http:
        for host, origin, code in (
            ("", "", 200),
            ("localhost:8001", "", 200),
            ("[::1]:8001", "", 200),
            ("evil.example.com", "", 403),
            ("evil.example.com:8001", "", 403),
            ("localhost.evil.example.com", "", 403),
            ("localhost", "http://evil.example.com", 403),
            ("localhost", "null", 403),
            ("localhost:8001", "http://localhost:8001", 200),
        ):
            assert (await http("GET", PODS, host=host, origin=origin))[0] == code, (host, origin)
        for site, code in (("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)):
            assert (await http("GET", PODS, sec_fetch_site=site))[0] == code, site


async def test_an_insecure_server_trusts_no_header_that_is_given_twice(keys: Any) -> None:
    from tests.apiserver.asking import serving

    async with serving(keys, secure=False) as http:
        host, _, port = http.url.removeprefix("http://").partition(":")
        for name, values in (
            ("Host", ("localhost", "evil.example.com")),
            ("Host", ("evil.example.com", "localhost")),
            ("Origin", ("http://localhost", "http://evil.example.com")),
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            lines = [f"GET {PODS} HTTP/1.1", *(f"{name}: {value}" for value in values), "Connection: close"]
            lines += [] if name == "Host" else ["Host: localhost"]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            answer = await reader.readline()
            writer.close()
            assert answer.split()[1] in (b"400", b"403"), (name, answer)
