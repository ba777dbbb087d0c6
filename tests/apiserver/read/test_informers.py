"""Every kind that Kubernetes' scheduler and controller manager follow is listed and watched as their informers ask."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator

import pytest

from dray.api.gates import FeatureGates
from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys
from tests.api.test_watched import CONTROLLER_MANAGER, SCHEDULER
from tests.apiserver.asking import HttpAsker, serving
from tests.waiting import within

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
STREAMED = "watch=true&allowWatchBookmarks=true&timeoutSeconds=60"
INITIAL = f"{STREAMED}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def paths() -> list[str]:
    found = set()
    for line in filter(None, (SCHEDULER + CONTROLLER_MANAGER).splitlines()):
        api_version, _, plurals = line.partition(": ")
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        found |= {f"{root}/{plural}" for plural in plurals.split()}
    return sorted(found)


FOLLOWED = paths()


@pytest.fixture
async def admin(keys: Keys) -> AsyncIterator[HttpAsker]:
    gates = FeatureGates.of({"GenericWorkload": True, "CompositePodGroup": True})
    async with serving(keys, gates=gates) as asker:
        yield asker


async def until_initial_end(admin: HttpAsker, path: str, accept: str) -> Tree:
    """The events of a watch up to the bookmark that says that the present state was told."""
    async with admin.send("GET", f"{path}?{INITIAL}", accept=accept) as response:
        assert response.status == 200, path
        while True:
            event: Tree = json.loads(await within(response.content.readline()))
            if event["type"] == "BOOKMARK":
                return event
            assert event["type"] == "ADDED", path


async def test_everything_is_listed_from_the_cache_and_watched_from_there(admin: HttpAsker) -> None:
    async def follow(path: str) -> None:
        accept = f"{PROTOBUF},application/json"
        code, body = await admin("GET", f"{path}?limit=500&resourceVersion=0", accept=accept)
        assert (code, body["kind"].endswith("List")) == (200, True), path
        version = body["metadata"]["resourceVersion"]
        async with admin.send("GET", f"{path}?{STREAMED}&resourceVersion={version}", accept=accept) as response:
            assert response.status == 200, path

    await asyncio.gather(*map(follow, FOLLOWED))


async def test_everything_is_told_as_a_stream_that_says_where_the_present_ends(admin: HttpAsker) -> None:
    async def follow(path: str) -> None:
        bookmark = (await until_initial_end(admin, path, f"{PROTOBUF},application/json"))["object"]
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}, path
        assert int(bookmark["metadata"]["resourceVersion"]) > 0, path

    await asyncio.gather(*map(follow, FOLLOWED))


async def test_everything_but_alpha_kinds_has_a_protobuf_form(admin: HttpAsker) -> None:
    async def follow(path: str) -> None:
        async with admin.send("GET", f"{path}?resourceVersion=0", accept=PROTOBUF) as response:
            assert (response.status, (await response.read())[:4]) == (200, MAGIC), path
        async with admin.send("GET", f"{path}?{INITIAL}", accept=f"{PROTOBUF};stream=watch") as response:
            (length,) = struct.unpack(">I", await within(response.content.readexactly(4)))
            assert length > 0, path

    await asyncio.gather(*(follow(path) for path in FOLLOWED if "alpha" not in path))


async def test_metadata_alone_is_followed_as_the_garbage_collector_does(admin: HttpAsker) -> None:
    accept = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

    async def follow(path: str) -> None:
        async with admin.send("GET", f"{path}?limit=500&resourceVersion=0", accept=accept) as response:
            assert response.status == 200, path
        one = accept.replace("List", "")
        async with admin.send("GET", f"{path}?{INITIAL}", accept=one) as response:
            assert response.status == 200, path

    await asyncio.gather(*map(follow, FOLLOWED))
