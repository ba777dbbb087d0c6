"""Webhooks behind pods that nothing runs are not called: neither at the address of such a pod, nor at any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dray.api.simulated import RUNS_NO_PODS, SIMULATED
from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import Hook, hooking
from tests.apiserver.asking import HttpAsker, created, pod, serving
from tests.apiserver.custom.converting import V1, V2, Converter, define, screen
from tests.connecting import noted_connections

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
NODES, PODS, SERVICES = "/api/v1/nodes", "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"
REAL, MADE_UP = "127.0.0.1", "10.11.12.13"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
MAPS = "/api/v1/namespaces/default/configmaps"
NONE = 'no endpoints available for service "hook"'


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


def endpoint(address: str, node: str = "", target: str = "") -> Tree:
    tree: Tree = {"addresses": [address], "conditions": {"ready": True}}
    if node:
        tree["nodeName"] = node
    if target:
        tree["targetRef"] = {"kind": "Pod", "namespace": "default", "name": target}
    return tree


async def serve(admin: HttpAsker, hook: Hook, *endpoints: Tree) -> Tree:
    """A Service with these endpoints; how a webhook behind it is configured."""
    ports = [{"name": "https", "port": 443, "targetPort": 1}]
    await created(admin, SERVICES, {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
    slice_ = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": urlsplit(hook.url).port}],
        "endpoints": [*endpoints],
    }
    await created(admin, SLICES, slice_)
    service = {"namespace": "default", "name": "hook", "path": "/check"}
    return {"service": service, "caBundle": hook.authority}


async def configure(admin: HttpAsker, hook: Hook, config: Tree, kind: str = "Validating", **fields: Any) -> None:
    tree = hook.configuration(rules=[RULE], clientConfig=config, **fields)
    tree["kind"] = f"{kind}WebhookConfiguration"
    await created(admin, f"{ADMISSION}/{kind.lower()}webhookconfigurations", tree)


def node(name: str, *, labels: Tree | None = None, mark: str = "") -> Tree:
    annotations = {RUNS_NO_PODS: mark} if mark else {}
    return {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations}}


MARKED = {
    "a-simulated-node": (node("n", mark="simulated"), endpoint(MADE_UP, "n", "p"), "pod p: node n is simulated"),
    "a-label-of-earlier-versions": (
        node("n", labels={SIMULATED: "true"}),
        endpoint(MADE_UP, "n", "p"),
        "pod p: node n is simulated",
    ),
    "the-runtime-fake": (node("n", mark="fake"), endpoint(MADE_UP, "n", "p"), "pod p: node n has the runtime fake"),
    "a-node-that-only-the-pod-names": (
        node("n", mark="simulated"),
        endpoint(MADE_UP, "", "p"),
        "pod p: node n is simulated",
    ),
    "a-node-that-is-gone": (node("n"), endpoint(MADE_UP, "m"), f"endpoint {MADE_UP}: node m does not exist"),
    "a-reserved-address": (
        node("n"),
        endpoint("198.19.1.2", "n"),
        "endpoint 198.19.1.2: addresses of 198.18.0.0/15 are made up and not connected to",
    ),
}


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
@pytest.mark.parametrize(("marked", "bad", "why"), MARKED.values(), ids=MARKED.keys())
async def test_a_webhook_of_pods_that_nothing_runs_fails_without_a_connection(
    admin: HttpAsker, hook: Hook, kind: str, marked: Tree, bad: Tree, why: str
) -> None:
    await created(admin, NODES, marked)
    await created(admin, PODS, pod("p", node="n"))
    await configure(admin, hook, await serve(admin, hook, bad), kind)
    with noted_connections() as connections:
        code, body = await admin("POST", MAPS, {"metadata": {"name": "c"}})
        assert (code, f"{NONE}: nothing runs its pods ({why})" in body["message"]) == (500, True), body
        assert {*connections} <= {REAL}  # the test's own


async def test_the_failure_policy_decides_and_the_reason_is_a_warning(admin: HttpAsker, hook: Hook) -> None:
    await created(admin, NODES, node("n", mark="simulated"))
    config = await serve(admin, hook, endpoint(MADE_UP, "n"))
    await configure(admin, hook, config, failurePolicy="Ignore")
    with noted_connections() as connections:
        async with admin.send("POST", MAPS, {"metadata": {"name": "c"}}) as answer:
            assert answer.status == 201
            assert "node n is simulated" in answer.headers["Warning"]
        assert {*connections} <= {REAL}


async def test_only_the_pods_that_run_are_called(admin: HttpAsker, hook: Hook) -> None:
    await created(admin, NODES, node("n", mark="simulated"))
    await created(admin, NODES, node("real"))
    unrun = [endpoint(f"10.0.0.{number}", "n") for number in range(1, 20)]
    await configure(admin, hook, await serve(admin, hook, *unrun, endpoint(REAL, "real")))
    with noted_connections() as connections:
        for number in range(8):
            code, body = await admin("POST", MAPS, {"metadata": {"name": f"c{number}"}})
            assert code == 201, body
        assert len(hook.requests) == 8
        assert {*connections} == {REAL}


async def test_a_message_lists_a_few_pods(admin: HttpAsker, hook: Hook) -> None:
    await created(admin, NODES, node("n", mark="simulated"))
    unrun = [endpoint(f"10.0.0.{number}", "n") for number in range(10, 15)]
    await configure(admin, hook, await serve(admin, hook, *unrun))
    _, body = await admin("POST", MAPS, {"metadata": {"name": "c"}})
    assert "endpoint 10.0.0.12: node n is simulated, and 2 more)" in body["message"]
    assert "10.0.0.13" not in body["message"]


async def test_a_reserved_address_in_a_url_is_not_connected_to(admin: HttpAsker, hook: Hook) -> None:
    await configure(admin, hook, {"url": "https://198.19.0.7/check", "caBundle": hook.authority})
    with noted_connections() as connections:
        code, body = await admin("POST", MAPS, {"metadata": {"name": "c"}})
        assert (code, "made up and not connected to" in body["message"]) == (500, True)
        assert {*connections} <= {REAL}


async def test_a_conversion_webhook_of_such_pods_is_not_called_either(admin: HttpAsker, hook_keys: Keys) -> None:
    await created(admin, NODES, node("n", mark="fake"))
    async with hooking(hook_keys, Converter) as converter:
        await define(admin, await serve(admin, converter, endpoint(MADE_UP, "n")))
        await created(admin, V1, screen("s", "v1", size="3x4"))
        with noted_connections() as connections:
            code, body = await admin("GET", f"{V2}/s")
            assert (code, "node n has the runtime fake" in body["message"]) == (500, True), body
            assert {*connections} <= {REAL}


@pytest.mark.parametrize("path", [f"{PODS}/p/log", f"{NODES}/n/proxy/healthz"])
async def test_a_simulated_node_is_not_asked_at_its_address(admin: HttpAsker, path: str) -> None:
    """A node that was copied from another cluster may have the address of a real kubelet."""
    await created(admin, NODES, node("n", mark="simulated"))
    await created(admin, PODS, pod("p", node="n"))
    address = [{"type": "InternalIP", "address": MADE_UP}]
    status = {"addresses": address, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    merge = "application/merge-patch+json"
    code, body = await admin("PATCH", f"{NODES}/n/status", {"status": status}, content_type=merge)
    assert code == 200, body
    with noted_connections() as connections:
        code, body = await admin("GET", path)
        assert (code, "node n is simulated: no node agent answers for it" in str(body)) == (503, True), body
        address[0]["address"] = "198.18.0.3"
        change = {"metadata": {"annotations": {RUNS_NO_PODS: None}}}
        await admin("PATCH", f"{NODES}/n", change, content_type=merge)
        await admin("PATCH", f"{NODES}/n/status", {"status": status}, content_type=merge)
        code, body = await admin("GET", path)
        assert (code, "made up and not connected to" in str(body)) == (503, True), body
        assert {*connections} <= {REAL}
