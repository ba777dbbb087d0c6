"""No way of writing passes a policy that refuses everything: every resource, subresource and verb that is served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.test_policies_served import MERGE, enforce
from tests.apiserver.asking import HttpAsker, claim, created, serving
from tests.hostile.attackers import CONFIG, PODS
from tests.hostile.attacks import CLAIMS, DEFINITIONS, definition
from tests.waiting import eventually

APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
CUSTOM = "/apis/hostile.example.com/v1/namespaces/default/larges"
NAMESPACE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
EXEMPT = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")  # they store nothing, and Kubernetes asks nobody about them


async def fill(admin: HttpAsker) -> None:
    """Objects that somebody could want to change."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    workload = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}}
    workload["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    await created(admin, "/api/v1/nodes", {"metadata": {"name": "n1"}})
    await created(admin, PODS, {"metadata": {"name": "p"}, "spec": spec})
    await created(admin, PODS, {"metadata": {"name": "q"}, "spec": {**spec, "nodeName": "n1"}})
    await created(admin, f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": workload})
    await created(admin, f"{APPS}/statefulsets", {"metadata": {"name": "s"}, "spec": {**workload, "serviceName": "x"}})
    await created(admin, CLAIMS, claim("c"))
    await created(admin, CONFIG, {"metadata": {"name": "c"}})
    await created(admin, f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    tree = definition({"a": {"type": "string"}})
    tree["spec"]["versions"][0]["subresources"] = {"status": {}}
    await created(admin, DEFINITIONS, tree)
    await eventually(lambda: established(admin))
    await created(admin, CUSTOM, {"apiVersion": "hostile.example.com/v1", "kind": "Large", "metadata": {"name": "l"}})


async def established(admin: HttpAsker) -> bool:
    async with admin.send("GET", CUSTOM) as response:
        return response.status == 200


async def attempts(admin: HttpAsker) -> AsyncIterator[tuple[str, str, Any, str]]:
    """Method, path, body and type of writes to everything that discovery names and that exists."""
    _, groups = await admin("GET", "/apis")
    versions = [version["groupVersion"] for group in groups["groups"] for version in group["versions"]]
    for base in ("/api/v1", *(f"/apis/{version}" for version in versions if version.split("/")[0] not in REVIEWS)):
        _, found = await admin("GET", base)
        names = [resource["name"] for resource in found["resources"]]
        for name in (name for name in names if "/" not in name and name not in EXEMPT):
            below = [other.partition("/")[2] for other in names if other.startswith(f"{name}/")]
            code, listed = await admin("GET", f"{base}/{name}")
            for item in (listed.get("items") or [])[:1] if code == 200 else ():
                for attempt in changes(base, name, below, {**item, "apiVersion": listed["apiVersion"]}):
                    yield attempt


def changes(base: str, name: str, below: list[str], item: dict[str, Any]) -> list[tuple[str, str, Any, str]]:
    metadata = item["metadata"]
    where = f"{base}/namespaces/{metadata['namespace']}/{name}" if "namespace" in metadata else f"{base}/{name}"
    one, labels = f"{where}/{metadata['name']}", {"metadata": {"labels": {"attack": "x"}}}
    applied = {"apiVersion": item["apiVersion"], "kind": item.get("kind"), **labels}
    found: list[tuple[str, str, Any, str]] = [
        ("POST", where, {**item, "metadata": {"name": "zz-new"}}, "application/json"),
        ("POST", where, {**item, "metadata": {"generateName": "zz-"}}, "application/json"),
        ("POST", f"{where}?dryRun=All", {**item, "metadata": {"name": "zz-dry"}}, "application/json"),
        ("DELETE", one, None, "application/json"),
        ("DELETE", where, None, "application/json"),
    ]
    for path in (
        one,
        *(f"{one}/{part}" for part in below if part not in ("exec", "attach", "portforward", "proxy", "log")),
    ):
        found += [
            ("PATCH", path, labels, MERGE),
            ("PATCH", path, labels, STRATEGIC),
            ("PATCH", f"{path}?fieldManager=x&force=true", applied, APPLY),
            ("PUT", path, {**item, "metadata": {**metadata, **labels["metadata"]}}, "application/json"),
        ]
    return found


POSTED: tuple[tuple[str, str, Any, str], ...] = (
    ("POST", f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}, "application/json"),
    ("POST", f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "p"}}, "application/json"),
    ("POST", f"{NAMESPACE}/bindings", {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "p"}}, "application/json"),
    ("POST", f"{NAMESPACE}/serviceaccounts/default/token", {"spec": {}}, "application/json"),
    ("PATCH", f"{PODS}/q/ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}, STRATEGIC),
    ("PATCH", f"{PODS}/q/resize", {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}, STRATEGIC),
    ("PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": 3}}, MERGE),
    ("PATCH", f"{CONFIG}/fresh?fieldManager=x", {"apiVersion": "v1", "kind": "ConfigMap"}, APPLY),
)  # fmt: skip


async def test_nothing_is_written_past_a_policy_that_refuses_everything(keys: Keys) -> None:
    async with serving(keys) as admin:
        await fill(admin)
        await enforce(admin, "false")
        tried = [attempt async for attempt in attempts(admin)]
        refused = 0
        for method, path, body, media in (*POSTED, *tried):
            async with admin.send(method, path, body, content_type=media) as response:
                assert response.status >= 400, (method, path)
                refused += "ValidatingAdmissionPolicy" in await response.text()
        assert refused > len(tried) // 2  # the others are wrong in some other way as well
        for method, path, body, media in POSTED:
            async with admin.send(method, path, body, content_type=media) as response:
                assert "ValidatingAdmissionPolicy" in await response.text(), path
