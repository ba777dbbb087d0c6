"""kubernetes_asyncio: the generated client on aiohttp."""

import asyncio

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.rest import ApiException
from kubernetes_asyncio.stream import WsApiClient
from operations import NAMESPACE, claim, definition, pod, run


async def api(name, call):
    await config.load_kube_config()
    async with client.ApiClient() as connection:
        return await call(getattr(client, name)(connection))


def core(call):
    return api("CoreV1Api", call)


async def create():
    await core(lambda one: one.create_namespaced_pod(NAMESPACE, pod("a")))
    await core(lambda one: one.create_namespaced_pod(NAMESPACE, pod("b")))
    assert (await core(lambda one: one.read_namespaced_pod("a", NAMESPACE))).metadata.uid


async def pages():
    async def both(one):
        first = await one.list_namespaced_pod(NAMESPACE, label_selector="app=compatibility", limit=1)
        rest = await one.list_namespaced_pod(NAMESPACE, limit=1, _continue=first.metadata._continue)
        assert {each.metadata.name for each in first.items + rest.items} == {"a", "b"}

    await core(both)


async def watching():
    async def look(one):
        version = (await one.list_namespaced_pod(NAMESPACE)).metadata.resource_version
        await one.patch_namespaced_pod("a", NAMESPACE, {"metadata": {"labels": {"seen": "yes"}}})
        stream = watch.Watch().stream(one.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=30)
        async for event in stream:
            if event["object"].metadata.labels.get("seen"):
                return
        raise AssertionError("no event")

    await core(look)


def patched(body, content_type):
    return core(lambda one: one.patch_namespaced_pod("a", NAMESPACE, body, _content_type=content_type))


async def apply():
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"applied": "yes"}}}
    kind = "application/apply-patch+yaml"
    await core(lambda one: one.patch_namespaced_pod("a", NAMESPACE, body, field_manager="c", _content_type=kind))


async def stale():
    old = await core(lambda one: one.read_namespaced_pod("a", NAMESPACE))
    await patched({"metadata": {"annotations": {"later": "yes"}}}, "application/merge-patch+json")
    await refused(409, lambda one: one.replace_namespaced_pod("a", NAMESPACE, old))


async def refused(code, call):
    try:
        await core(call)
    except ApiException as error:
        assert error.status == code, error.status
        return error
    raise AssertionError("not refused")


async def invalid():
    error = await refused(422, lambda one: one.create_namespaced_pod(NAMESPACE, pod("c", restartPolicy="Sometimes")))
    assert "spec.restartPolicy" in str(error.body)


async def until(name, call):
    for _ in range(100):
        try:
            if result := await api(name, call):
                return result
        except ApiException as error:
            if error.status != 404:
                raise
        await asyncio.sleep(0.1)
    raise AssertionError("not in time")


async def customs():
    group = "compatibility.example.com"
    await api("ApiextensionsV1Api", lambda one: one.create_custom_resource_definition(definition("aios")))
    body = {"apiVersion": f"{group}/v1", "kind": "Aio", "metadata": {"name": "k"}, "spec": {"size": 2}}
    await until(
        "CustomObjectsApi", lambda one: one.create_namespaced_custom_object(group, "v1", NAMESPACE, "aios", body)
    )


async def claims():
    await api("ResourceV1Api", lambda one: one.create_namespaced_resource_claim(NAMESPACE, claim("c")))
    needs = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    await core(lambda one: one.create_namespaced_pod(NAMESPACE, pod("user", **needs)))

    async def placed(one):
        return (await one.read_namespaced_pod("user", NAMESPACE)).spec.node_name

    await until("CoreV1Api", placed)
    found = (await api("ResourceV1Api", lambda one: one.read_namespaced_resource_claim("c", NAMESPACE))).status
    assert found.allocation.devices.results
    assert found.reserved_for[0].name == "user"


async def status():
    body = {"status": {"conditions": [{"type": "Compatible", "status": "True"}]}}
    changed = await core(lambda one: one.patch_namespaced_pod_status("a", NAMESPACE, body))
    assert any(one.type == "Compatible" for one in changed.status.conditions)


async def evict():
    body = {"metadata": {"name": "b", "namespace": NAMESPACE}}
    await core(lambda one: one.create_namespaced_pod_eviction("b", NAMESPACE, body))


async def on_agent():
    body = pod("shell", nodeName="agent-0", terminationGracePeriodSeconds=0)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", "echo ready; sleep 300"]
    await core(lambda one: one.create_namespaced_pod(NAMESPACE, body))

    async def running(one):
        return (await one.read_namespaced_pod("shell", NAMESPACE)).status.phase == "Running"

    await until("CoreV1Api", running)
    async with WsApiClient() as connection:
        one = client.CoreV1Api(connection)
        told = await one.connect_get_namespaced_pod_exec("shell", NAMESPACE, command=["echo", "hello"], stdout=True)
    assert told.strip() == "hello", told


async def log():
    assert "ready" in await core(lambda one: one.read_namespaced_pod_log("shell", NAMESPACE))


async def collection():
    await core(lambda one: one.delete_collection_namespaced_pod(NAMESPACE, label_selector="app=compatibility"))

    async def empty(one):
        return not (await one.list_namespaced_pod(NAMESPACE)).items

    await until("CoreV1Api", empty)


LABELS = "/metadata/labels"
run(
    {
        "create and get a pod": create,
        "list by label, in pages": pages,
        "watch from a list": watching,
        "merge patch": lambda: patched({"metadata": {"labels": {"m": "1"}}}, "application/merge-patch+json"),
        "strategic merge patch": lambda: patched(
            {"metadata": {"labels": {"s": "1"}}}, "application/strategic-merge-patch+json"
        ),
        "JSON patch": lambda: patched(
            [{"op": "add", "path": f"{LABELS}/j", "value": "1"}], "application/json-patch+json"
        ),
        "server-side apply": apply,
        "replace with a stale version is a conflict": stale,
        "a missing object is 404": lambda: refused(404, lambda one: one.read_namespaced_pod("none", NAMESPACE)),
        "an invalid object is told by field": invalid,
        "define a custom resource and create one": customs,
        "a claim is allocated and reserved": claims,
        "update a status": status,
        "evict a pod": evict,
        "exec in a container": on_agent,
        "read a log": log,
        "delete a collection": collection,
    }
)
