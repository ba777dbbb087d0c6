"""lightkube: typed models of every Kubernetes version."""

import time

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.types import PatchType
from operations import NAMESPACE, claim, definition, pod, run

client = Client(namespace=NAMESPACE, field_manager="compatibility")


def create() -> None:
    for name in "ab":
        client.create(Pod.from_dict(pod(name)))
    assert client.get(Pod, "a").metadata.uid


def pages() -> None:
    found = list(client.list(Pod, labels={"app": "compatibility"}, chunk_size=1))
    assert {one.metadata.name for one in found} == {"a", "b"}


def watching() -> None:
    client.patch(Pod, "a", {"metadata": {"labels": {"seen": "yes"}}})
    for _, seen in client.watch(Pod, server_timeout=30):
        if seen.metadata.labels.get("seen"):
            return
    raise AssertionError("no event")


def apply() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"applied": "yes"}}}
    client.patch(Pod, "a", body, patch_type=PatchType.APPLY)


def stale() -> None:
    old = client.get(Pod, "a")
    client.patch(Pod, "a", {"metadata": {"annotations": {"later": "yes"}}})
    refused(409, lambda: client.replace(old))


def refused(code: int, call: object) -> ApiError:
    try:
        call()
    except ApiError as error:
        assert error.status.code == code, error.status
        return error
    raise AssertionError("not refused")


def invalid() -> None:
    error = refused(422, lambda: client.create(Pod.from_dict(pod("c", restartPolicy="Sometimes"))))
    assert error.status.details.causes[0].field == "spec.restartPolicy"


def customs() -> None:
    client.create(CustomResourceDefinition.from_dict(definition("lights")))
    Light = create_namespaced_resource("compatibility.example.com", "v1", "Light", "lights")
    for _ in range(100):
        try:
            return client.create(Light(metadata=ObjectMeta(name="k"), spec={"size": 2}))
        except ApiError as error:
            if error.status.code not in (404, None):
                raise
            time.sleep(0.1)
    raise AssertionError("not in time")


def claims() -> None:
    client.create(ResourceClaim.from_dict(claim("c")))
    client.create(Pod.from_dict(pod("user", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])))
    client.wait(Pod, "user", for_conditions=["PodScheduled"])
    found = client.get(ResourceClaim, "c").status
    assert found.allocation.devices.results
    assert found.reservedFor[0].name == "user"


def status() -> None:
    body = {"status": {"conditions": [{"type": "Compatible", "status": "True"}]}}
    changed = client.patch(Pod.Status, "a", body)
    assert any(one.type == "Compatible" for one in changed.status.conditions)


def evict() -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b", "namespace": NAMESPACE}}
    client.create(Pod.Eviction.from_dict(body), "b")


def log() -> None:
    body = pod("shell", nodeName="agent-0", terminationGracePeriodSeconds=0)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", "echo ready; sleep 300"]
    client.create(Pod.from_dict(body))
    client.wait(Pod, "shell", for_conditions=["Ready"])
    assert "ready\n" in list(client.log("shell"))


def collection() -> None:
    client.deletecollection(Pod)


run(
    {
        "create and get a pod": create,
        "list by label, in pages": pages,
        "watch from a list": watching,
        "merge patch": lambda: client.patch(Pod, "a", {"metadata": {"labels": {"m": "1"}}}, patch_type=PatchType.MERGE),
        "strategic merge patch": lambda: client.patch(Pod, "a", {"metadata": {"labels": {"s": "1"}}}),
        "JSON patch": lambda: client.patch(
            Pod, "a", [{"op": "add", "path": "/metadata/labels/j", "value": "1"}], patch_type=PatchType.JSON
        ),
        "server-side apply": apply,
        "replace with a stale version is a conflict": stale,
        "a missing object is 404": lambda: refused(404, lambda: client.get(Pod, "none")),
        "an invalid object is told by field": invalid,
        "define a custom resource and create one": customs,
        "a claim is allocated and reserved": claims,
        "update a status": status,
        "evict a pod": evict,
        "read a log": log,
        "delete a collection": collection,
    }
)
