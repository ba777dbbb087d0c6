"""Answers in protobuf, over a socket: what a Go client configured for it sends and reads."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest

from dray.api.gates import FeatureGates
from dray.api.protobuf import decode, encode
from dray.api.protobuf_types import message_class
from dray.api.resources import BY_NAME
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.answers import AnswerWriter
from dray.apiserver.wire.negotiation import PLAIN
from tests.apiserver.asking import Asker, HttpAsker, Tree, claim, created, pod, serving
from tests.waiting import eventually, within

PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
DRA = "/apis/resource.k8s.io"
CLAIMS = f"{DRA}/v1/namespaces/default/resourceclaims"
GROUPS = "/apis/scheduling.k8s.io/{}/namespaces/default/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
INITIAL = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
RAW = ("fieldsV1", "parameters")


async def asked(http: HttpAsker, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Tree]:
    """The code and the tree of an answer in protobuf."""
    async with http.send(method, path, body, **{"accept": PROTOBUF, **headers}) as response:
        data = await response.read()
        assert response.headers["Content-Type"] == PROTOBUF, data
        return response.status, decode(data)


async def watched(http: HttpAsker, path: str, count: int, accept: str = PROTOBUF) -> list[tuple[str, Tree]]:
    """The first events of a watch, by their frames."""
    events = []
    async with http.send("GET", path, accept=accept) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, f"{PROTOBUF};stream=watch")
        while len(events) < count:
            (length,) = struct.unpack(">I", await response.content.readexactly(4))
            event: Any = message_class("WatchEvent")()
            event.ParseFromString(await response.content.readexactly(length))
            events.append((event.type, decode(event.object.raw)))
    return events


def set_only(value: Any) -> Any:
    """A tree without what Go would take for not set, which protobuf does not tell apart; raw JSON stays as it is."""
    if isinstance(value, list):
        return [set_only(element) for element in value]
    if not isinstance(value, dict):
        return value
    tree = {key: element if key in RAW else set_only(element) for key, element in value.items()}
    return {key: element for key, element in tree.items() if element or element is False}


async def same(http: HttpAsker, path: str) -> Tree:
    """What both forms of an answer say."""
    code, json = await http("GET", path)
    assert await asked(http, "GET", path) == (code, set_only(json))
    return json


def opaque_claim(name: str) -> Tree:
    tree = claim(name, labels={"app": "x"}, annotations={"a": "b"})
    tree["spec"]["devices"]["config"] = [{"opaque": {"driver": "d.example.com", "parameters": {"deep": [{"x": 1.5}]}}}]
    return tree


async def test_objects_and_lists_say_the_same_as_in_json(http_all_versions: HttpAsker) -> None:
    http = http_all_versions
    await created(http, CLAIMS, opaque_claim("a"))
    found = await same(http, f"{CLAIMS}/a")
    assert found["metadata"]["managedFields"][0]["fieldsV1"]
    await created(http, CLAIMS, claim("b"))
    listed = await same(http, CLAIMS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    first = await same(http, f"{CLAIMS}?limit=1")
    assert first["metadata"]["remainingItemCount"] == 1
    assert not (await same(http, f"{CLAIMS}?labelSelector=app=y"))["items"]
    for version in ("v1beta1", "v1beta2"):
        await same(http, f"{DRA}/{version}/namespaces/default/resourceclaims/a")
        await same(http, f"{DRA}/{version}/namespaces/default/resourceclaims")


async def test_pods_slices_and_what_stands_in_the_cluster_already(http_all_versions: HttpAsker) -> None:
    http = http_all_versions
    limits = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    tree = pod("p")
    tree["spec"]["containers"][0] |= {"resources": limits, "ports": [{"containerPort": 80}]}
    tree["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    await created(http, "/api/v1/namespaces/default/pods", tree)
    await created(
        http,
        f"{DRA}/v1/resourceslices",
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": "d", "attributes": {"big": {"bool": False}}, "capacity": {"m": {"value": "40Gi"}}}
                ],
            },
        },
    )
    _, slices = await asked(http, "GET", f"{DRA}/v1/resourceslices/s")
    assert slices["spec"]["devices"][0]["attributes"] == {"big": {"bool": False}}
    await same(http, f"{DRA}/v1beta1/resourceslices/s")
    rules = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    for path in ("/api/v1/namespaces", rules, "/api/v1/namespaces/default/serviceaccounts"):
        assert (await same(http, path))["items"]
    _, found = await asked(http, "GET", "/api/v1/namespaces/default/pods/p")
    assert found["spec"]["volumes"][0] == {"name": "v", "emptyDir": {}}
    assert found["spec"]["containers"][0]["resources"] == limits


async def test_writes_are_answered_as_they_are_sent(http: HttpAsker) -> None:
    tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim("a")}
    code, made = await asked(http, "POST", CLAIMS, encode(tree), content_type=PROTOBUF)
    assert (code, made["spec"]["devices"]["requests"][0]["exactly"]["count"]) == (201, 1)
    made["metadata"]["labels"] = {"x": "y"}
    code, updated = await asked(http, "PUT", f"{CLAIMS}/a", encode(made), content_type=PROTOBUF)
    assert (code, updated["metadata"]["labels"]) == (200, {"x": "y"})
    merge = "application/merge-patch+json"
    code, patched = await asked(http, "PATCH", f"{CLAIMS}/a", {"metadata": {"labels": None}}, content_type=merge)
    assert (code, "labels" in patched["metadata"]) == (200, False)
    options = encode({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
    code, deleted = await asked(http, "DELETE", f"{CLAIMS}/a", options, content_type=PROTOBUF)
    assert (code, deleted["metadata"]["name"]) == (200, "a")


async def test_what_is_stored_nowhere_has_the_form_too(http: HttpAsker) -> None:
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    code, review = await asked(http, "POST", reviews, spec)
    assert (code, review["kind"], review["status"]["allowed"]) == (201, "SelfSubjectAccessReview", True)
    token = "/api/v1/namespaces/default/serviceaccounts/default/token"
    code, request = await asked(http, "POST", token, {"spec": {"audiences": []}})
    assert (code, request["kind"], bool(request["status"]["token"])) == (201, "TokenRequest", True)
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": labels, "template": template}}
    await created(http, DEPLOYMENTS, deployment)
    code, scale = await asked(http, "GET", f"{DEPLOYMENTS}/d/scale")
    assert (code, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 2})
    await created(http, "/api/v1/namespaces/default/pods", pod("p"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    code, status = await asked(http, "POST", "/api/v1/namespaces/default/pods/p/eviction", eviction)
    assert (code, status["kind"], status["status"]) == (201, "Status", "Success")


@pytest.mark.parametrize(
    ("method", "path", "headers", "code", "reason"),
    [
        ("GET", f"{CLAIMS}/nope", {}, 404, "NotFound"),
        ("GET", f"{DRA}/v1/nope", {}, 404, "NotFound"),
        ("PUT", CLAIMS, {}, 405, "MethodNotAllowed"),
        ("GET", CLAIMS, {"authorization": "Bearer wrong"}, 401, "Unauthorized"),
        ("GET", f"{CLAIMS}?watch=perhaps", {}, 400, "BadRequest"),
        ("GET", f"{CLAIMS}?watch=true&resourceVersion=x", {}, 400, "BadRequest"),
        ("POST", CLAIMS, {}, 422, "Invalid"),
    ],
)
async def test_refusals_are_statuses(
    http: HttpAsker, method: str, path: str, headers: dict[str, str], code: int, reason: str
) -> None:
    body = {"metadata": {"name": "A"}, "spec": {"devices": {}}} if method == "POST" else None
    found, status = await asked(http, method, path, body, **headers)
    assert (found, status["kind"], status["code"], status["reason"]) == (code, "Status", code, reason)
    assert status["message"]
    if code == 422:
        assert status["details"]["causes"][0]["field"] == "metadata.name"


async def test_a_watch_is_a_stream_of_frames(http: HttpAsker) -> None:
    made = await created(http, CLAIMS, opaque_claim("a"))
    task = asyncio.ensure_future(watched(http, f"{CLAIMS}?watch=true", 4))
    await eventually(lambda: http.running.http.metrics.watchers == 1)
    await http("POST", CLAIMS, claim("b"))
    patch = {"metadata": {"labels": {"x": "y"}}}
    await http("PATCH", f"{CLAIMS}/b", patch, content_type="application/merge-patch+json")
    await http("DELETE", f"{CLAIMS}/b")
    events = await within(task)
    assert [type_ for type_, _ in events] == ["ADDED", "ADDED", "MODIFIED", "DELETED"]
    assert events[0][1] == set_only(made)
    versions = [int(tree["metadata"]["resourceVersion"]) for _, tree in events]
    assert versions == sorted(set(versions))


async def test_a_watch_of_many_objects_tells_them_all(http: HttpAsker) -> None:
    """More than are encoded in one turn, and a list that is encoded beside the loop; the end of the initial events is a bookmark of the kind."""
    names = [f"c{number:03}" for number in range(150)]
    for name in names:
        await created(http, CLAIMS, claim(name, annotations={"long": "x" * 1000}))
    *events, (type_, last) = await watched(http, f"{CLAIMS}?{INITIAL}", len(names) + 1)
    assert [tree["metadata"]["name"] for _, tree in events] == names
    assert (type_, last["kind"], last["apiVersion"]) == ("BOOKMARK", "ResourceClaim", "resource.k8s.io/v1")
    assert last["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert len((await same(http, CLAIMS))["items"]) == len(names)


async def test_a_watch_that_cannot_go_on_says_so(http: HttpAsker) -> None:
    http.running.api.storage.cache._history.forget(10**6)
    ((type_, status),) = await watched(http, f"{CLAIMS}?watch=true&resourceVersion=1", 1)
    assert (type_, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")


async def test_a_client_of_metadata_gets_nothing_else(http: HttpAsker) -> None:
    """Lists, single objects and watches, whose bookmarks are metadata too."""
    made = await created(http, CLAIMS, opaque_claim("a"))
    kind = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    partial = {**kind, "metadata": set_only(made["metadata"])}
    assert await asked(http, "GET", f"{CLAIMS}/a", accept=METADATA) == (200, partial)
    _, listed = await asked(http, "GET", CLAIMS, accept=METADATA.replace("Metadata;", "MetadataList;"))
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [{"metadata": partial["metadata"]}])
    events = await watched(http, f"{CLAIMS}?{INITIAL}", 2, METADATA)
    assert events[0] == ("ADDED", partial)
    assert events[1][0] == "BOOKMARK"
    assert events[1][1] | kind == events[1][1]


async def test_json_is_answered_where_both_are_welcome_for_tables_and_by_discovery(http: HttpAsker) -> None:
    await created(http, CLAIMS, claim("a"))
    for accept in (f"{PROTOBUF},application/json", f"{PROTOBUF}, */*", f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,*/*"):
        code, found = await http("GET", f"{CLAIMS}/a", accept=accept)
        assert (code, found["kind"]) == (200, "ResourceClaim")
    code, status = await http("GET", CLAIMS, accept=f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1")
    assert (code, status["reason"]) == (406, "NotAcceptable")
    code, resources = await http("GET", f"{DRA}/v1", accept=PROTOBUF)
    assert (code, resources["kind"]) == (200, "APIResourceList")


async def test_versions_without_numbers_are_json_only(keys: Keys) -> None:
    path = GROUPS.format("v1alpha1")
    async with serving(keys, gates=FeatureGates.parse("GenericWorkload=true")) as http:
        code, status = await asked(http, "GET", path)
        assert (code, status["reason"]) == (406, "NotAcceptable")
        assert "there is no protobuf form of this" in status["message"]
        code, listed = await http("GET", path, accept=f"{PROTOBUF},application/json;q=0.5")
        assert (code, listed["kind"]) == (200, "PodGroupList")
        code, listed = await asked(http, "GET", path, accept=METADATA.replace("Metadata;", "MetadataList;"))
        assert (code, listed["kind"]) == (200, "PartialObjectMetadataList")
        assert (await asked(http, "GET", GROUPS.format("v1beta1")))[0] == 200


async def test_a_go_client_defines_a_custom_resource_in_protobuf(http: HttpAsker) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 3, "minimum": 0}}}
    root = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    names = {"plural": "widgets", "kind": "Widget"}
    tree = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    code, made = await asked(http, "POST", DEFINITIONS, encode(tree), content_type=PROTOBUF)
    assert (code, made["spec"]["versions"]) == (201, [version])

    async def is_established() -> bool:
        _, found = await asked(http, "GET", f"{DEFINITIONS}/widgets.example.com")
        conditions = found["status"].get("conditions", ())
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    await eventually(is_established)
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    widget = await created(http, widgets, {**kind, "metadata": {"name": "w"}, "spec": {}})
    assert widget["spec"] == {"size": 3}
    assert (await asked(http, "GET", widgets))[0] == 406  # objects of custom resources are JSON only
    events = await watched(http, f"{DEFINITIONS}?watch=true", 1)
    assert [(type_, found["spec"]["versions"]) for type_, found in events] == [("ADDED", [version])]
    code, listed = await asked(http, "GET", DEFINITIONS)
    assert (code, [item["spec"]["versions"] for item in listed["items"]]) == (200, [[version]])


async def test_a_large_object_is_sent_from_the_bytes_that_the_cache_holds(ask: Asker) -> None:
    maps = BY_NAME["", "configmaps"]
    await ask("create", maps, body={"metadata": {"name": "large"}, "data": {"x": "y" * 100_000}})
    request = ask.request("get", maps, "large", version="v1")
    answer = await ask.server.handle(request)
    parts: Any = AnswerWriter(ask.server.storage).answer(request, answer, PLAIN, "")
    head, rest = parts
    assert isinstance(rest, memoryview)
    assert answer.version is not None
    assert rest.obj is answer.version.value
    assert json.loads(bytes(head) + bytes(rest))["metadata"]["resourceVersion"] == str(answer.version.revision)
