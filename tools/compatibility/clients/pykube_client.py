"""pykube-ng: a small client on requests."""

import time

import pykube
from operations import NAMESPACE, claim, definition, pod, run
from pykube.objects import CustomResourceDefinition, NamespacedAPIObject

api = pykube.HTTPClient(pykube.KubeConfig.from_env())


class Claim(NamespacedAPIObject):
    version, endpoint, kind = "resource.k8s.io/v1", "resourceclaims", "ResourceClaim"


class Py(NamespacedAPIObject):
    version, endpoint, kind = "compatibility.example.com/v1", "pies", "Pie"


def pods() -> pykube.query.Query:
    return pykube.Pod.objects(api).filter(namespace=NAMESPACE)


def create() -> None:
    for name in "ab":
        pykube.Pod(api, pod(name)).create()
    assert pods().get_by_name("a").metadata["uid"]


def listed() -> None:
    assert {one.name for one in pods().filter(selector={"app": "compatibility"})} == {"a", "b"}


def watching() -> None:
    stream = pods().watch()
    pods().get_by_name("a").patch({"metadata": {"labels": {"seen": "yes"}}})
    for event in stream:
        if event.object.labels.get("seen"):
            return
    raise AssertionError("no event")


def strategic() -> None:
    pods().get_by_name("a").patch({"metadata": {"labels": {"s": "1"}}})


def missing() -> None:
    assert pods().get_or_none(name="none") is None
    try:
        pods().get_by_name("none")
    except pykube.exceptions.ObjectDoesNotExist:
        return
    raise AssertionError("found")


def invalid() -> None:
    try:
        pykube.Pod(api, pod("c", restartPolicy="Sometimes")).create()
    except pykube.exceptions.HTTPError as error:
        assert "spec.restartPolicy" in str(error)
        return
    raise AssertionError("not refused")


def customs() -> None:
    defined = definition("pies")
    defined["spec"]["names"] = {"plural": "pies", "singular": "pie", "kind": "Pie"}
    CustomResourceDefinition(api, defined).create()
    body = {"apiVersion": Py.version, "kind": "Pie", "metadata": {"name": "k", "namespace": NAMESPACE}}
    for _ in range(100):
        try:
            return Py(api, body | {"spec": {"size": 2}}).create()
        except pykube.exceptions.HTTPError as error:
            if error.code != 404:
                raise
            time.sleep(0.1)
    raise AssertionError("not in time")


def claims() -> None:
    Claim(api, claim("c")).create()
    pykube.Pod(api, pod("user", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])).create()
    for _ in range(100):
        if "nodeName" in pods().get_by_name("user").obj["spec"]:
            break
        time.sleep(0.1)
    found = Claim.objects(api).filter(namespace=NAMESPACE).get_by_name("c").obj["status"]
    assert found["allocation"]["devices"]["results"]
    assert found["reservedFor"][0]["name"] == "user"


def status() -> None:
    body = {"status": {"conditions": [{"type": "Compatible", "status": "True"}]}}
    pods().get_by_name("a").patch(body, subresource="status")


def log() -> None:
    body = pod("shell", nodeName="agent-0", terminationGracePeriodSeconds=0)
    body["spec"]["containers"][0]["command"] = ["sh", "-c", "echo ready; sleep 300"]
    shell = pykube.Pod(api, body)
    shell.create()
    for _ in range(100):
        shell.reload()
        if shell.ready:
            break
        time.sleep(0.1)
    assert "ready" in shell.logs()


run(
    {
        "create and get a pod": create,
        "list by label, in pages": listed,
        "watch from a list": watching,
        "strategic merge patch": strategic,
        "a missing object is 404": missing,
        "an invalid object is told by field": invalid,
        "define a custom resource and create one": customs,
        "a claim is allocated and reserved": claims,
        "update a status": status,
        "read a log": log,
    }
)
