"""What a driver made with Go's library does to the API server: protobuf slices, and a streaming list first."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from dray.api import protobuf
from dray.api.types.resource import ResourceSlice
from dray.apiserver.assembly import Running
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client
from dray.driver import Pool, device
from dray.driver.plan import plan
from dray.driver.pools import specs

PATH = "/apis/resource.k8s.io/v1/resourceslices"
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf", "Accept": "application/json"}


@pytest.fixture
async def http(server: Running) -> AsyncIterator[aiohttp.ClientSession]:
    sock = listen("127.0.0.1", 0)
    web = HttpServer(server.http, sock, None)
    await web.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{sock.getsockname()[1]}") as session:
        yield session
    server.drain()
    await web.stop()


async def test_slices_arrive_in_protobuf_and_are_answered_in_json(http: aiohttp.ClientSession, client: Client) -> None:
    pool = Pool([device("gpu-0", {"model": "a100", "index": 3}, {"memory": "40Gi"})])
    [tree] = plan(specs("d.example.com", "node-1", "p", pool), [], "node-1").create
    body = protobuf.encode(tree)
    assert body.startswith(b"k8s\0")
    async with http.post(PATH, data=body, headers=PROTOBUF) as answer:
        assert answer.status == 201
        created = await answer.json()
    created["spec"]["pool"]["generation"] = 2
    async with http.put(
        f"{PATH}/{tree['metadata']['name']}", data=protobuf.encode(created), headers=PROTOBUF
    ) as answer:
        assert answer.status == 200
    stored = await client.get(ResourceSlice, tree["metadata"]["name"])
    assert (stored.spec.pool.generation, stored.spec.devices[0].capacity["memory"].value) == (2, "40Gi")


async def test_a_streaming_list_is_served_or_refused_so_that_clients_fall_back(http: aiohttp.ClientSession) -> None:
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "fieldSelector": "spec.driver=d.example.com,spec.nodeName=node-1",
        "timeoutSeconds": "1",
    }
    async with http.get(PATH, params=query) as answer:
        if answer.status == 422:
            assert (await answer.json())["reason"] == "Invalid"
            return
        assert answer.status == 200
        assert b"k8s.io/initial-events-end" in await answer.read()
