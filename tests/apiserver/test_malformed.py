"""A thousand requests that are almost right: each gets an answer below 500 with a Status, and the server lives on."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from typing import Any

from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import claim, pod, serving
from tests.waiting import within

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICE = {
    "metadata": {"name": "s", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["example.com/x"]},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d", "attributes": {"a": {"string": "x"}}, "capacity": {"m": {"value": "1Gi"}}}],
    },
}
VALID: list[tuple[str, str, str, Any]] = [
    ("GET", "/api/v1/namespaces/default/pods?limit=5&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx", "", None),
    ("GET", f"{CLAIMS}/a?resourceVersion=0&pretty=true", "", None),
    ("GET", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver%3Dx&resourceVersion=1", "", None),
    ("GET", "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=1&allowWatchBookmarks=true", "", None),
    ("GET", "/openapi/v3/apis/resource.k8s.io/v1", "", None),
    ("GET", "/apis/resource.k8s.io", "", None),
    ("POST", f"{CLAIMS}?fieldValidation=Strict&dryRun=All&fieldManager=me", "application/json", claim("a")),
    ("POST", "/api/v1/namespaces/default/pods?dryRun=All", "application/json", pod("p")),
    ("POST", "/apis/resource.k8s.io/v1/resourceslices?dryRun=All", "application/json", SLICE),
    ("PUT", f"{CLAIMS}/a?dryRun=All", "application/json", claim("a", resourceVersion="5")),
    ("PATCH", f"{CLAIMS}/a", "application/merge-patch+json", {"metadata": {"labels": {"a": "b"}}}),
    ("PATCH", f"{CLAIMS}/a", "application/json-patch+json", [{"op": "add", "path": "/metadata/labels", "value": {}}]),
    ("PATCH", "/api/v1/namespaces/default/pods/p", "application/strategic-merge-patch+json", {"spec": {"$patch": "x"}}),
    ("PATCH", f"{CLAIMS}/a?fieldManager=m&force=true", "application/apply-patch+yaml", claim("a")),
    ("DELETE", f"{CLAIMS}/a?gracePeriodSeconds=1", "application/json", {"preconditions": {"uid": "x"}}),
    (
        "POST",
        "/api/v1/namespaces/default/pods/p/binding",
        "application/json",
        {"target": {"kind": "Node", "name": "n"}},
    ),
    ("POST", "/api/v1/namespaces/default/pods/p/eviction", "application/json", {"metadata": {"name": "p"}}),
    (
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "application/json",
        {"spec": {"audiences": ["x"]}},
    ),
    ("PUT", f"{CLAIMS}/a/status?dryRun=All", "application/json", claim("a") | {"status": {"devices": []}}),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", "application/json", {"spec": {"replicas": 1}}),
    ("DELETE", f"{CLAIMS}?labelSelector=x&dryRun=All", "application/json", {"propagationPolicy": "Orphan"}),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", {"spec": {"user": "x"}}),
]
ODD: list[Any] = [
    None,
    True,
    -1,
    10**400,
    1.5e308,
    "",
    "\0",
    "é" * 50,
    "a" * 5000,
    [],
    {},
    [[]],
    {"a": {}},
    "18446744073709551616",
]
HEADERS = [
    ("Accept", "text/html"),
    ("Accept", "application/json;as=Table;v=v9;g=x"),
    ("Accept", ";;;,,,==="),
    ("Accept", "application/vnd.kubernetes.protobuf"),
    ("Content-Type", "application/vnd.kubernetes.protobuf"),
    ("Content-Type", "application/yaml"),
    ("Content-Type", "\x80\xff"),
    ("Impersonate-User", "jane"),
    ("Impersonate-Group", "x"),
    ("Impersonate-Extra-%zz", "x"),
    ("Authorization", "Bearer a.b.c"),
    ("Authorization", "Basic eDp5"),
    ("If-None-Match", '"x"'),
    ("User-Agent", "\xff" * 3000),
]


def mutated_tree(chance: random.Random, tree: Any) -> Any:
    """The tree with one value somewhere replaced, or a field added or taken."""
    if isinstance(tree, dict) and tree and chance.random() < 0.85:
        key = chance.choice(list(tree))
        if chance.random() < 0.15:
            return {k: v for k, v in tree.items() if k != key} | {chance.choice(["bogus", "", "a.b/c", key + "x"]): 1}
        return {**tree, key: mutated_tree(chance, tree[key])}
    if isinstance(tree, list) and tree and chance.random() < 0.85:
        place = chance.randrange(len(tree))
        return [*tree[:place], mutated_tree(chance, tree[place]), *tree[place + 1 :]]
    return chance.choice(ODD)


def mutated_bytes(chance: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return chance.choice(
        [
            data[:at],
            data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :],
            data + data,
            b"[" * 5000,
            b"k8s\0" + data,
        ]
    )


def mutated_path(chance: random.Random, path: str) -> str:
    at = chance.randrange(1, len(path))
    piece = chance.choice(
        ["%00", "%2F", "%ff", "//", "..", "a" * 3000, "%zz", "&", "=", "?", ";", "%F0%9F%92%A9", "'", '"']
    )
    return chance.choice([path[:at] + piece + path[at:], path[:at], path + piece])


def malformed(chance: random.Random, token: str) -> bytes:
    """One request as it goes over the wire."""
    method, path, media, body = chance.choice(VALID)
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"Host": "x", "Authorization": f"Bearer {token}", "Content-Type": media or "application/json"}
    match chance.randrange(6):
        case 0 | 1 if body is not None:
            data = json.dumps(mutated_tree(chance, body)).encode()
        case 2 if data:
            data = mutated_bytes(chance, data)
        case 3:
            name, value = chance.choice(HEADERS)
            headers[name] = value
        case 4:
            method = chance.choice(["PUT", "PATCH", "POST", "OPTIONS", "HEAD", "TRACE", "CONNECT", "GET"])
        case _:
            path = mutated_path(chance, path)
    headers["Content-Length"] = str(len(data))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "Connection: close"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


async def answer(port: int, context: ssl.SSLContext, request: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(request)
        # A watch that has lost its timeout goes on for half an hour, as it should: its head is enough.
        watching = b"watch" in request.partition(b"\r\n")[0]
        data = await within(reader.readuntil(b"\r\n\r\n") if watching else reader.read())
        data += await within(reader.read(10_000)) if watching and b" 200 " not in data[:20] else b""
    finally:
        writer.close()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), headers, body


async def test_malformed_requests_get_an_answer_with_a_status(keys: Keys) -> None:
    chance = random.Random(20)
    async with serving(keys) as http:
        context = ssl.create_default_context(cafile=str(keys.authority_file))
        port = int(http.url.rpartition(":")[2])
        await http("POST", CLAIMS, claim("a"))
        await http("POST", "/api/v1/namespaces/default/pods", pod("p"))
        codes: dict[int, int] = {}
        for _ in range(100):
            requests = [malformed(chance, http.token) for _ in range(10)]
            answers = await asyncio.gather(*(answer(port, context, request) for request in requests))
            for request, (code, headers, body) in zip(requests, answers, strict=True):
                codes[code] = codes.get(code, 0) + 1
                assert code < 500 or code == 501, (code, request, body)
                if (
                    code >= 400
                    and not request.startswith(b"HEAD")
                    and headers.get("content-type") == "application/json"
                ):
                    assert json.loads(body)["kind"] == "Status", (request, body)
        assert (await http("GET", f"{CLAIMS}"))[0] == 200
        assert sum(number for code, number in codes.items() if code >= 400) > 300, codes


async def test_connections_that_say_nothing_sensible_are_closed(keys: Keys) -> None:
    async with serving(keys, secure=False) as http:
        port = int(http.url.rpartition(":")[2])
        for data in (
            b"\x16\x03\x01\x00",
            b"GET\r\n\r\n",
            b"\0" * 100,
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writer.write_eof()
            assert len(await within(reader.read())) < 1000
            writer.close()
        assert (await http("GET", CLAIMS))[0] == 200
