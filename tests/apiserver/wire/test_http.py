"""The server over HTTP: codes, headers, forms of answers, limits."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from dray.api.protobuf import encode as to_protobuf
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from dray.client import InProcess
from dray.store import MemoryLog, Op
from tests.apiserver.asking import HttpAsker, claim, pod, serving
from tests.waiting import eventually, within

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_objects_are_created_read_changed_and_deleted(http: HttpAsker) -> None:
    code, created = await http("POST", CLAIMS, claim("a"))
    assert (code, created["kind"], created["apiVersion"]) == (201, "ResourceClaim", "resource.k8s.io/v1")
    assert created["metadata"]["namespace"] == "default"
    assert await http("GET", f"{CLAIMS}/a") == (200, created)
    code, patched = await http(
        "PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type="application/merge-patch+json"
    )
    assert (code, patched["metadata"]["labels"]) == (200, {"x": "y"})
    code, updated = await http("PUT", f"{CLAIMS}/a", claim("a"))
    assert (code, "labels" in updated["metadata"]) == (200, False)
    code, listed = await http("GET", CLAIMS)
    item = {k: v for k, v in updated.items() if k not in ("apiVersion", "kind")}
    assert (listed["kind"], listed["items"]) == ("ResourceClaimList", [item])
    assert (await http("DELETE", f"{CLAIMS}/a"))[0] == 200
    assert (await http("GET", f"{CLAIMS}/a"))[0] == 404


@pytest.mark.local_store  # looks at the commits of a store in memory
async def test_commits_of_requests_say_that_a_client_waits_for_them(
    http: HttpAsker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    commit = MemoryLog.commit

    async def noted(log: MemoryLog, ops: Sequence[Op], *, awaited: bool = False) -> int:
        seen.append(awaited)
        return await commit(log, ops, awaited=awaited)

    monkeypatch.setattr(MemoryLog, "commit", noted)
    await http("POST", CLAIMS, claim("a"))
    await http(
        "PATCH", f"{CLAIMS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type="application/merge-patch+json"
    )
    await http("DELETE", f"{CLAIMS}/a")
    await http("POST", "/api/v1/namespaces/default/pods", pod("p"))
    binding = {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "p"}}
    assert (await http("POST", "/api/v1/namespaces/default/pods/p/binding", binding))[0] == 201
    assert seen == [True] * 5
    await InProcess(http.running.api, ADMIN).create(ResourceClaim, claim("a", namespace="default"))
    assert seen == [True] * 5 + [False]


async def test_every_served_version_shows_the_same_object(http_all_versions: HttpAsker) -> None:
    http = http_all_versions
    await http("POST", CLAIMS, claim("a"))
    async with http.send("GET", CLAIMS.replace("/v1/", "/v1beta1/") + "/a") as response:
        old = await response.json()
        warning = response.headers["Warning"]
    assert old["apiVersion"] == "resource.k8s.io/v1beta1"
    assert old["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
    assert warning == '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
    _, listed = await http("GET", CLAIMS.replace("/v1/", "/v1beta1/"))
    assert listed["items"][0]["spec"] == old["spec"]
    assert listed["items"][0]["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


async def test_yaml_is_read_and_written(http: HttpAsker) -> None:
    text = yaml.safe_dump(claim("a"))
    async with http.send("POST", CLAIMS, text, content_type="application/yaml", accept="application/yaml") as response:
        assert (response.status, response.content_type) == (201, "application/yaml")
        assert yaml.safe_load(await response.text())["metadata"]["name"] == "a"


async def test_protobuf_is_read_and_answered_in_json(http: HttpAsker) -> None:
    tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim("a")}
    protobuf = "application/vnd.kubernetes.protobuf"
    code, created = await http(
        "POST", CLAIMS, to_protobuf(tree), content_type=protobuf, accept=f"{protobuf},application/json"
    )
    assert code == 201
    assert created["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


async def test_a_table_has_rows_and_columns(http: HttpAsker) -> None:
    await http("POST", CLAIMS, claim("a"))
    code, table = await http("GET", CLAIMS, accept=TABLE)
    assert (code, table["kind"]) == (200, "Table")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age", "Devices", "Node"]
    assert table["rows"][0]["cells"][:2] == ["a", "pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    _, whole = await http("GET", f"{CLAIMS}/a?includeObject=Object", accept=TABLE)
    assert whole["rows"][0]["object"]["spec"]["devices"]
    assert (await http("GET", f"{CLAIMS}?includeObject=Some", accept=TABLE))[0] == 400


async def test_metadata_alone_can_be_asked_for(http: HttpAsker) -> None:
    await http("POST", CLAIMS, claim("a"))
    one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    code, partial = await http("GET", f"{CLAIMS}/a", accept=one)
    assert (code, partial["kind"], "spec" in partial) == (200, "PartialObjectMetadata", False)
    _, listed = await http("GET", CLAIMS, accept=one.replace("Metadata;", "MetadataList;"))
    assert (listed["kind"], listed["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "a")


async def test_a_pretty_answer_has_lines(http: HttpAsker) -> None:
    code, text = await http.text("/api/v1/namespaces/default?pretty=true")
    assert code == 200
    assert text.startswith('{\n  "apiVersion"')


async def test_a_head_has_no_body(http: HttpAsker) -> None:
    async with http.send("HEAD", "/api/v1/namespaces/default") as response:
        assert (response.status, await response.read()) == (200, b"")
        assert int(response.headers["Content-Length"]) > 100


@pytest.mark.parametrize(
    ("method", "path", "headers", "code", "reason"),
    [
        ("GET", f"{CLAIMS}/nope", {}, 404, "NotFound"),
        ("GET", "/apis/resource.k8s.io/v1/nope", {}, 404, "NotFound"),
        ("PUT", CLAIMS, {}, 405, "MethodNotAllowed"),
        ("GET", CLAIMS, {"accept": "text/html"}, 406, "NotAcceptable"),
        ("PATCH", f"{CLAIMS}/a", {"content_type": "text/plain"}, 415, "UnsupportedMediaType"),
        ("POST", CLAIMS, {"content_type": "text/plain"}, 415, "UnsupportedMediaType"),
        ("GET", CLAIMS, {"authorization": "Bearer wrong"}, 401, "Unauthorized"),
        ("GET", CLAIMS, {"authorization": ""}, 401, "Unauthorized"),
        ("GET", f"{CLAIMS}?watch=perhaps", {}, 400, "BadRequest"),
        ("GET", "/api/v1/namespaces/default/pods/p/exec", {}, 400, "BadRequest"),
        ("POST", "/version", {}, 405, "MethodNotAllowed"),
    ],
)
async def test_refusals_have_a_code_and_a_status(
    http: HttpAsker, method: str, path: str, headers: dict[str, str], code: int, reason: str
) -> None:
    body = "{}" if method in ("POST", "PATCH", "PUT") else None
    found, status = await http(method, path, body, **headers)
    assert (found, status["kind"], status["code"], status["reason"]) == (code, "Status", code, reason)


async def test_paths_outside_of_the_api_are_plainly_unknown(http: HttpAsker) -> None:
    assert await http.text("/nope") == (404, "404 page not found\n")
    assert await http.text("/apis/nope.example.com/v1") == (404, "404 page not found\n")


async def test_a_body_may_not_be_too_large(http: HttpAsker) -> None:
    body = json.dumps(claim("a", annotations={"x": "y" * (3 << 20)}))
    code, status = await http("POST", CLAIMS, body, content_type="application/json")
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")

    async def chunks() -> Any:
        for _ in range(4):
            yield b" " * (1 << 20)

    headers = {"authorization": f"Bearer {http.token}"}
    async with http.session.post(http.url + CLAIMS, data=chunks(), headers=headers) as response:
        assert response.status == 413


async def test_too_many_requests_are_told_to_come_back(keys: Keys) -> None:
    async with serving(keys, limits=Limits(requests=0, watchers=0)) as http:
        async with http.send("GET", CLAIMS) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
        async with http.send("GET", f"{CLAIMS}?watch=1") as response:
            assert response.status == 429


async def watched(http: HttpAsker, path: str, count: int, **headers: str) -> list[Any]:
    events: list[Any] = []
    async with http.send("GET", path, **headers) as response:
        assert response.status == 200
        async for line in response.content:
            events.append(json.loads(line))
            if len(events) == count:
                break
    return events


async def test_work_in_the_process_gets_shorter_turns_while_clients_ask(http: HttpAsker) -> None:
    priority = http.running.api.priority
    await priority.give_way()
    undisturbed = await priority.give_way()
    await http("GET", CLAIMS)
    assert await priority.give_way() < undisturbed
    assert await priority.give_way() == undisturbed


async def test_a_watch_is_a_stream_of_lines(http: HttpAsker) -> None:
    _, created = await http("POST", CLAIMS, claim("a"))
    task = asyncio.ensure_future(watched(http, f"{CLAIMS}?watch=true", 3))
    await eventually(lambda: http.running.http.metrics.watchers == 1)
    await http("POST", CLAIMS, claim("b"))
    await http("DELETE", f"{CLAIMS}/b")
    events = await within(task)
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "DELETED"]
    assert events[0]["object"] == created
    deleted, added = events[2]["object"]["metadata"], events[1]["object"]["metadata"]
    assert int(deleted["resourceVersion"]) > int(added["resourceVersion"])


async def test_watchers_of_tables_and_of_one_object(http: HttpAsker) -> None:
    await http("POST", CLAIMS, claim("a"))
    await http("POST", CLAIMS, claim("b"))
    events = await watched(http, f"{CLAIMS}?watch=true", 2, accept=TABLE)
    assert events[0]["object"]["columnDefinitions"][0]["name"] == "Name"
    assert events[1]["object"]["columnDefinitions"] is None
    path = "/apis/resource.k8s.io/v1/watch/namespaces/default/resourceclaims/b"
    assert (await watched(http, path, 1))[0]["object"]["metadata"]["name"] == "b"


async def test_initial_events_are_announced(http: HttpAsker) -> None:
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await http("POST", CLAIMS, claim("a"))
    events = await watched(http, f"{CLAIMS}?{query}", 2)
    assert events[1]["type"] == "BOOKMARK"
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_from_a_time_long_ago_ends_with_an_error(http: HttpAsker) -> None:
    http.running.api.storage.cache._history.forget(10**6)
    events = await watched(http, f"{CLAIMS}?watch=true&resourceVersion=1", 1)
    assert events[0]["type"] == "ERROR"
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


async def test_a_client_that_leaves_is_forgotten(http: HttpAsker) -> None:
    metrics = http.running.http.metrics
    async with http.send("GET", f"{CLAIMS}?watch=true") as response:
        assert response.status == 200
        assert metrics.watchers == 1
        response.close()
    await eventually(lambda: metrics.watchers == 0)


async def test_a_client_certificate_is_a_user(http: HttpAsker, keys: Keys, tmp_path: Path) -> None:
    pair = keys.client("jane", ("system:masters",))
    (tmp_path / "c.pem").write_bytes(pair.certificate)
    (tmp_path / "k.pem").write_bytes(pair.key)
    context = ssl.create_default_context(cafile=str(keys.authority_file))
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.post(f"{http.url}/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review) as response,
    ):
        assert response.status == 201
        assert (await response.json())["status"]["userInfo"]["username"] == "jane"


async def test_somebody_without_a_role_is_forbidden(http: HttpAsker) -> None:
    code, status = await http("GET", CLAIMS, impersonate_user="jane")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert 'User "jane" cannot list resource "resourceclaims" in API group "resource.k8s.io"' in status["message"]
    assert (await http("GET", "/version", impersonate_user="jane"))[0] == 200
    assert (await http("GET", "/metrics", impersonate_user="jane"))[0] == 403


async def test_logs_come_from_whoever_knows_the_nodes(http: HttpAsker) -> None:
    async def lines(request: Any, query: dict[str, str]) -> Any:
        yield f"{request.name} {query['tailLines']}\n".encode()
        yield b"more\n"

    http.running.api.log_source = lines
    assert await http.text("/api/v1/namespaces/default/pods/p/log?tailLines=5") == (200, "p 5\nmore\n")


async def test_an_insecure_server_needs_no_token(keys: Keys) -> None:
    async with serving(keys, secure=False) as http:
        assert (await http("GET", CLAIMS, authorization=""))[0] == 200


async def test_each_answer_has_an_id_that_log_lines_about_it_have(
    http: HttpAsker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dray.requests")
    async with http.send("GET", "/api/v1/namespaces", **{"Audit-Id": "mine-1"}) as answer:
        assert answer.headers["Audit-Id"] == "mine-1"
    async with http.send("GET", "/api/v1/nothing") as answer:
        assert len(answer.headers["Audit-Id"]) == 36
    lines = [line.getMessage() for line in caplog.records if line.name == "dray.requests"]
    assert [line.rpartition(" in ")[0] for line in lines] == [
        "GET /api/v1/namespaces by kubernetes-admin: 200",
        "GET /api/v1/nothing by kubernetes-admin: 404",
    ]
