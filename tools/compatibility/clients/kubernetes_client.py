"""The official Python client."""

import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream
from operations import NAMESPACE, claim, definition, pod, run

config.load_kube_config()
core, devices, extensions = client.CoreV1Api(), client.ResourceV1Api(), client.ApiextensionsV1Api()
custom, policy = client.CustomObjectsApi(), client.PolicyV1Api()


def create() -> None:
    core.create_namespaced_pod(NAMESPACE, pod("a"))
    core.create_namespaced_pod(NAMESPACE, pod("b"))
    assert core.read_namespaced_pod("a", NAMESPACE).metadata.uid


def pages() -> None:
    first = core.list_namespaced_pod(NAMESPACE, label_selector="app=compatibility", limit=1)
    rest = core.list_namespaced_pod(
        NAMESPACE, label_selector="app=compatibility", limit=1, _continue=first.metadata._continue
    )
    assert {one.metadata.name for one in first.items + rest.items} == {"a", "b"}


def watching() -> None:
    version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.patch_namespaced_pod("a", NAMESPACE, {"metadata": {"labels": {"seen": "yes"}}})
    for event in watch.Watch().stream(
        core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=30
    ):
        if event["object"].metadata.labels.get("seen"):
            return
    raise AssertionError("no event")


def patched(body: object, content_type: str) -> object:
    return core.patch_namespaced_pod("a", NAMESPACE, body, _content_type=content_type)


def apply() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"applied": "yes"}}}
    core.patch_namespaced_pod(
        "a", NAMESPACE, body, field_manager="compatibility", _content_type="application/apply-patch+yaml"
    )


def stale() -> None:
    old = core.read_namespaced_pod("a", NAMESPACE)
    core.patch_namespaced_pod("a", NAMESPACE, {"metadata": {"annotations": {"later": "yes"}}})
    refused(409, lambda: core.replace_namespaced_pod("a", NAMESPACE, old))


def refused(code: int, call: object) -> ApiException:
    try:
        call()
    except ApiException as error:
        assert error.status == code, error.status
        return error
    raise AssertionError("not refused")


def invalid() -> None:
    error = refused(422, lambda: core.create_namespaced_pod(NAMESPACE, pod("c", restartPolicy="Sometimes")))
    assert "spec.restartPolicy" in error.body


def customs() -> None:
    extensions.create_custom_resource_definition(definition("kubes"))
    body = {
        "apiVersion": "compatibility.example.com/v1",
        "kind": "Kube",
        "metadata": {"name": "k"},
        "spec": {"size": 2},
    }
    until(lambda: custom.create_namespaced_custom_object("compatibility.example.com", "v1", NAMESPACE, "kubes", body))


def until(call: object) -> object:
    for _ in range(100):
        try:
            if result := call():
                return result
        except ApiException as error:
            if error.status != 404:
                raise
        time.sleep(0.1)
    raise AssertionError("not in time")


def claims() -> None:
    devices.create_namespaced_resource_claim(NAMESPACE, claim("c"))
    needs = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    core.create_namespaced_pod(NAMESPACE, pod("user", **needs))
    until(lambda: core.read_namespaced_pod("user", NAMESPACE).spec.node_name)
    found = devices.read_namespaced_resource_claim("c", NAMESPACE).status
    assert found.allocation.devices.results
    assert found.reserved_for[0].name == "user"


def status() -> None:
    body = {"status": {"conditions": [{"type": "Compatible", "status": "True"}]}}
    core.patch_namespaced_pod_status("a", NAMESPACE, body)
    assert any(one.type == "Compatible" for one in core.read_namespaced_pod("a", NAMESPACE).status.conditions)


def evict() -> None:
    core.create_namespaced_pod_eviction("b", NAMESPACE, {"metadata": {"name": "b", "namespace": NAMESPACE}})


def on_agent() -> None:
    container = {"name": "main", "image": "example.com/app", "command": ["sh", "-c", "echo ready; sleep 300"]}
    body = pod("shell", nodeName="agent-0", terminationGracePeriodSeconds=0)
    body["spec"]["containers"] = [container]
    core.create_namespaced_pod(NAMESPACE, body)
    until(lambda: core.read_namespaced_pod("shell", NAMESPACE).status.phase == "Running")
    told = stream(core.connect_get_namespaced_pod_exec, "shell", NAMESPACE, command=["echo", "hello"], stdout=True)
    assert told.strip() == "hello", told


def log() -> None:
    assert "ready" in core.read_namespaced_pod_log("shell", NAMESPACE)


def collection() -> None:
    core.delete_collection_namespaced_pod(NAMESPACE, label_selector="app=compatibility")
    until(lambda: not core.list_namespaced_pod(NAMESPACE).items)


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
            [{"op": "add", "path": "/metadata/labels/j", "value": "1"}], "application/json-patch+json"
        ),
        "server-side apply": apply,
        "replace with a stale version is a conflict": stale,
        "a missing object is 404": lambda: refused(404, lambda: core.read_namespaced_pod("none", NAMESPACE)),
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
