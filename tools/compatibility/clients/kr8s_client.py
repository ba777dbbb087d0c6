"""kr8s: a client in the style of kubectl."""

import time

import kr8s
from kr8s.objects import CustomResourceDefinition, Pod, new_class
from operations import NAMESPACE, claim, definition, pod, run

Claim = new_class(kind="ResourceClaim", version="resource.k8s.io/v1", namespaced=True)
api = kr8s.api(namespace=NAMESPACE)


def create() -> None:
    for name in "ab":
        Pod(pod(name)).create()
    assert Pod.get("a", namespace=NAMESPACE).metadata.uid


def pages() -> None:
    found = api.get("pods", namespace=NAMESPACE, label_selector={"app": "compatibility"})
    assert {one.name for one in found} == {"a", "b"}


def watching() -> None:
    for event, seen in api.watch("pods", namespace=NAMESPACE):
        if seen.name == "a" and event in ("ADDED", "MODIFIED"):
            if seen.labels.get("seen"):
                return
            Pod.get("a", namespace=NAMESPACE).label(seen="yes")
    raise AssertionError("no event")


def patched(body: object, **options: object) -> None:
    Pod.get("a", namespace=NAMESPACE).patch(body, **options)


def missing() -> None:
    try:
        Pod.get("none", namespace=NAMESPACE, timeout=0)
    except kr8s.NotFoundError:
        return
    raise AssertionError("found")


def invalid() -> None:
    try:
        Pod(pod("c", restartPolicy="Sometimes")).create()
    except kr8s.ServerError as error:
        assert "spec.restartPolicy" in str(error)
        return
    raise AssertionError("not refused")


def customs() -> None:
    CustomResourceDefinition(definition("krs")).create()
    Kr = new_class(kind="Kr", version="compatibility.example.com/v1", namespaced=True)
    body = {"metadata": {"name": "k", "namespace": NAMESPACE}, "spec": {"size": 2}}
    for _ in range(100):
        try:
            return Kr(body).create()
        except (kr8s.NotFoundError, kr8s.ServerError):
            time.sleep(0.1)
    raise AssertionError("not in time")


def claims() -> None:
    Claim(claim("c")).create()
    user = Pod(pod("user", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
    user.create()
    user.wait("condition=PodScheduled", timeout=30)
    found = Claim.get("c", namespace=NAMESPACE).status
    assert found.allocation.devices.results
    assert found.reservedFor[0].name == "user"


def status() -> None:
    patched({"status": {"conditions": [{"type": "Compatible", "status": "True"}]}}, subresource="status")


def on_agent() -> None:
    body = pod("shell", nodeName="agent-0", terminationGracePeriodSeconds=0)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", "echo ready; sleep 300"]
    shell = Pod(body)
    shell.create()
    shell.wait("condition=Ready", timeout=30)
    assert shell.exec(["echo", "hello"]).stdout.strip() == b"hello"


def log() -> None:
    assert "ready" in "\n".join(Pod.get("shell", namespace=NAMESPACE).logs())


run(
    {
        "create and get a pod": create,
        "list by label, in pages": pages,
        "watch from a list": watching,
        "merge patch": lambda: patched({"metadata": {"labels": {"m": "1"}}}),
        "JSON patch": lambda: patched([{"op": "add", "path": "/metadata/labels/j", "value": "1"}], type="json"),
        "a missing object is 404": missing,
        "an invalid object is told by field": invalid,
        "define a custom resource and create one": customs,
        "a claim is allocated and reserved": claims,
        "update a status": status,
        "exec in a container": on_agent,
        "read a log": log,
    }
)
