"""Readers who do not read, and what they ask for: lists and watches of much more than a connection holds."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.http import HttpCall
from tests.hostile.attackers import CONFIG, Attacked, attacked, closed, head, measured, posted
from tests.waiting import eventually, within

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def filled(server: Attacked, count: int, size: int, **labels: str) -> None:
    for number in range(count):
        metadata = {"name": f"c{number:05}", "labels": labels}
        await posted(server.admin, CONFIG, {"metadata": metadata, "data": {"x": "y" * size}})


async def deaf(stack: AsyncExitStack, server: Attacked) -> asyncio.StreamWriter:
    """A connection on which nothing will be read."""
    _, writer = await stack.enter_async_context(server.connection())
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
    return writer


@pytest.mark.parametrize("query", ["", "?watch=1"], ids=["list", "watch"])
async def test_unread_answers_keep_little_and_are_left(keys: Keys, tmp_path: Path, query: str) -> None:
    """Ten megabytes each, asked for by thirty connections of which none reads."""
    async with attacked(keys, tmp_path, limits=Limits(unread_seconds=1.0)) as server, AsyncExitStack() as stack:
        await filled(server, 20, 500_000)
        writers = [await deaf(stack, server) for _ in range(30)]
        tracemalloc.start()
        for writer in writers:
            writer.write(head("GET", CONFIG + query, "viewer"))
        metrics = server.admin.running.http.metrics
        await eventually(lambda: metrics.in_flight + metrics.watchers >= 30)
        await asyncio.sleep(0.5)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 30 * (1 << 20)
        await eventually(lambda: metrics.in_flight + metrics.watchers == 0, 20)


async def test_what_a_reader_who_left_had_is_freed_without_a_collection(keys: Keys, tmp_path: Path) -> None:
    async with attacked(keys, tmp_path, limits=Limits(unread_seconds=1.0)) as server:
        await filled(server, 10, 500_000)
        metrics = server.admin.running.http.metrics

        def calls() -> int:
            return sum(isinstance(found, HttpCall) for found in gc.get_objects())

        await eventually(lambda: metrics.in_flight == 0)
        gc.collect()
        gc.disable()
        try:
            before = calls()
            async with AsyncExitStack() as stack:
                writers = [await deaf(stack, server) for _ in range(10)]
                for number, writer in enumerate(writers):
                    writer.write(head("GET", CONFIG + ("?watch=1" if number % 2 else ""), "viewer"))
                await eventually(lambda: metrics.in_flight + metrics.watchers == 10)
                await eventually(lambda: metrics.in_flight + metrics.watchers == 0, 20)
            await eventually(lambda: calls() <= before)
        finally:
            gc.enable()


@pytest.mark.parametrize("accept", ["application/json", "application/yaml", PROTOBUF, TABLE])
async def test_a_long_list_is_whole_in_every_form_and_holds_nobody_up(server: Attacked, accept: str) -> None:
    await filled(server, 600, 1000)
    async with measured() as stall, server.user("viewer").send("GET", CONFIG, accept=accept) as response:
        data = await response.read()
    assert response.status == 200
    assert stall.longest < 0.1
    if accept == PROTOBUF:
        assert data.count(b"c00") >= 600
        return
    tree: Any = await asyncio.to_thread(yaml.load, data, yaml.CSafeLoader) if "yaml" in accept else json.loads(data)
    rows = tree["rows"] if accept == TABLE else tree["items"]
    assert len(rows) == 601  # and the certificate of the authority
    names = [row["object"]["metadata"]["name"] if accept == TABLE else row["metadata"]["name"] for row in rows]
    assert names == sorted(names)


async def test_protobuf_of_a_list_in_pieces_is_that_of_the_whole(server: Attacked) -> None:
    from dray.api import protobuf

    await filled(server, 40, 10_000, a="b")
    viewer = server.user("viewer")
    async with viewer.send("GET", CONFIG, accept=PROTOBUF) as response:
        pieces = await response.read()
    _, tree = await viewer("GET", CONFIG)
    assert pieces == protobuf.encode(tree)


async def test_lists_that_must_be_made_whole_are_limited_together(keys: Keys, tmp_path: Path) -> None:
    async with attacked(keys, tmp_path, limits=Limits(whole_answers=1 << 20)) as server, AsyncExitStack() as stack:
        await filled(server, 20, 300_000)
        writer = await deaf(stack, server)
        writer.write(head("GET", CONFIG, "viewer", accept=PROTOBUF))
        await eventually(lambda: server.admin.running.http._listings.whole._taken > 0)
        await asyncio.sleep(0.1)
        async with server.user("viewer").send("GET", CONFIG, accept=PROTOBUF) as response:
            assert response.status == 429
            assert response.headers["retry-after"]
        assert (await server.user("viewer")("GET", CONFIG))[0] == 200


SELECTOR = ",".join(f"k{number}!=v" for number in range(990))


async def test_long_selectors_over_many_objects_hold_nobody_up(server: Attacked) -> None:
    await filled(server, 500, 10, a="b")
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(server.connection()) for _ in range(20)]
        async with measured() as stall:
            for number, (_, writer) in enumerate(opened):
                writer.write(head("GET", f"{CONFIG}?labelSelector={SELECTOR},!x{number}", "viewer"))
            began = time.monotonic()
            assert (await server.user("editor")("GET", f"{CONFIG}/c00001"))[0] == 200
            assert time.monotonic() - began < 5
            for reader, _ in opened:
                assert b" 200 " in await within(reader.readline())
    assert stall.longest < 0.1


async def test_selectors_longer_than_that_are_refused(server: Attacked) -> None:
    for kind, term in (("labelSelector", "a!=b"), ("fieldSelector", "metadata.name!=b")):
        selector = ",".join([term] * 1500)
        for watch in ("", "&watch=1"):
            code, body = await server.user("viewer")("GET", f"{CONFIG}?{kind}={selector}{watch}")
            assert code == 400, kind
            assert "more than 1000 conditions" in body["message"]


async def test_watches_with_long_selectors_do_not_hold_up_who_writes(server: Attacked) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(30):
            reader, writer = await stack.enter_async_context(server.connection())
            writer.write(head("GET", f"{CONFIG}?watch=1&labelSelector={SELECTOR}", "viewer"))
            assert b" 200 " in await within(reader.readline())
        async with measured() as stall:
            for number in range(40):
                await posted(server.admin, CONFIG, {"metadata": {"name": f"w{number}"}})
        assert stall.longest < 0.1
        while b'"w39"' not in await within(reader.readline()):
            pass


async def test_old_clients_get_long_lists_with_a_length(server: Attacked) -> None:
    await filled(server, 5, 100_000)
    async with server.connection() as (reader, writer):
        writer.write(head("GET", CONFIG, "viewer").replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = await within(closed(reader))
    heading, _, body = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in heading.lower()
    assert len(json.loads(body)["items"]) == 6
