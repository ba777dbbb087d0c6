"""kopf: an operator with handlers, finalizers and status."""

import asyncio

import kopf
from kubernetes import client, config
from operations import NAMESPACE, definition, run

GROUP, PLURAL = "compatibility.example.com", "kopfs"
seen: list[str] = []


@kopf.on.create(GROUP, "v1", PLURAL)
def created(patch, **_):
    seen.append("created")
    patch.status["handled"] = True


@kopf.on.update(GROUP, "v1", PLURAL)
def changed(**_):
    seen.append("changed")


@kopf.on.delete(GROUP, "v1", PLURAL)
def deleted(**_):
    seen.append("deleted")


@kopf.on.startup()
def quiet(settings, **_):
    settings.posting.enabled = True


async def until(condition):
    for _ in range(300):
        if condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not in time, seen: {seen}")


async def operator() -> None:
    config.load_kube_config()
    custom = client.CustomObjectsApi()
    defined = definition(PLURAL)
    defined["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    client.ApiextensionsV1Api().create_custom_resource_definition(defined)
    stop = asyncio.Event()
    running = asyncio.create_task(kopf.operator(namespaces=[NAMESPACE], standalone=True, stop_flag=stop))
    try:
        await asyncio.sleep(1)
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Kopf", "metadata": {"name": "k"}, "spec": {"size": 1}}
        custom.create_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, body)
        await until(lambda: seen == ["created"])
        await until(lambda: custom.get_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "k").get("status"))
        custom.patch_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "k", {"spec": {"size": 2}})
        await until(lambda: seen == ["created", "changed"])
        custom.delete_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL, "k")
        await until(lambda: seen == ["created", "changed", "deleted"])
        await until(lambda: not custom.list_namespaced_custom_object(GROUP, "v1", NAMESPACE, PLURAL)["items"])
    finally:
        stop.set()
        await running


run({"an operator is told of creation, change and deletion": operator})
