"""What anybody who reaches the port can do, before and after saying who they are."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire import negotiation
from tests.hostile.attackers import CONFIG, PODS, Attacked, attacked, closed, head, measured
from tests.waiting import eventually, within


@pytest.mark.parametrize(
    "flood",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * (8 << 20),
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * (1 << 20),
        b"GET /" + b"a" * (8 << 20),
    ],
    ids=["long header", "many headers", "long path"],
)
async def test_endless_heads_are_refused_early(server: Attacked, flood: bytes) -> None:
    async with server.connection() as (reader, writer), measured() as stall:

        async def send() -> None:
            for start in range(0, len(flood), 1 << 16):
                writer.write(flood[start : start + (1 << 16)])
                await writer.drain()

        sending = asyncio.ensure_future(send())
        answer = await within(closed(reader))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert answer.startswith(b"HTTP/1.1 431 ") or not answer  # the client may have lost it by sending on
    assert stall.longest < 0.1


async def test_a_head_of_ordinary_size_with_a_large_body_behind_it_is_read(server: Attacked) -> None:
    data = "x" * 1_000_000
    code, _ = await server.admin("POST", CONFIG, {"metadata": {"name": "large"}, "data": {"x": data}})
    assert code == 201
    assert (await server.admin("GET", f"{CONFIG}/large"))[1]["data"]["x"] == data


async def test_more_headers_than_anybody_needs_are_refused(server: Attacked) -> None:
    async with server.connection() as (reader, writer):
        writer.write(head("GET", "/version", "viewer", **{f"h{i}": "" for i in range(300)}))
        assert (await within(closed(reader))).startswith(b"HTTP/1.1 431 ")


async def test_what_is_remembered_of_headers_is_small(server: Attacked) -> None:
    negotiation._remembered.cache_clear()
    for number in range(20):
        code, _ = await server.user("viewer")("GET", PODS, accept=f"application/json;x{number}=" + "y" * 7000)
        assert code in (200, 406)
    assert negotiation._remembered.cache_info().currsize == 0


@pytest.mark.parametrize("said", [b"", b"GET /", b"GET / HTTP/1.1\r\nhost: x\r\n"], ids=["nothing", "a path", "a half"])
async def test_slow_heads_are_left(keys: Keys, tmp_path: Path, said: bytes) -> None:
    async with (
        attacked(keys, tmp_path, limits=Limits(head_seconds=0.3)) as server,
        server.connection() as (reader, writer),
    ):

        async def trickle() -> None:
            writer.write(said)
            while said:
                await asyncio.sleep(0.05)
                writer.write(b"x")

        trickling = asyncio.ensure_future(trickle())
        began = time.monotonic()
        assert await within(closed(reader)) == b""
        assert time.monotonic() - began < 20
        trickling.cancel()


async def test_slow_bodies_are_left(keys: Keys, tmp_path: Path) -> None:
    limits = Limits(body_seconds=0.3, body_bytes_a_second=1 << 30)
    async with attacked(keys, tmp_path, limits=limits) as server, server.connection() as (reader, writer):
        writer.write(head("POST", CONFIG, "editor", content_length=1000) + b"{")
        metrics = server.admin.running.http.metrics
        await eventually(lambda: metrics.in_flight == 1)
        assert await within(closed(reader)) == b""
        await eventually(lambda: metrics.in_flight == 0)


async def test_no_body_is_read_of_whoever_may_not_send_it(server: Attacked) -> None:
    for user, code in (("", 401), ("nobody", 403), ("viewer", 403)):
        async with server.connection() as (reader, writer):
            writer.write(head("POST", CONFIG, user, content_length=1000))
            assert int((await within(reader.readline())).split()[1]) == code


async def test_a_refused_body_does_not_keep_the_connection(keys: Keys, tmp_path: Path) -> None:
    limits = Limits(head_seconds=0.3, body_seconds=0.3)
    async with attacked(keys, tmp_path, limits=limits) as server, server.connection() as (reader, writer):
        writer.write(head("POST", CONFIG, "viewer", content_length=1000) + b"x")
        assert (await within(closed(reader))).startswith(b"HTTP/1.1 403 ")


async def test_half_bodies_of_one_user_leave_room_for_others(keys: Keys, tmp_path: Path) -> None:
    async with attacked(keys, tmp_path, limits=Limits(requests=12, requests_of_user=8)) as server:
        halves = [server.connection() for _ in range(12)]
        metrics = server.admin.running.http.metrics
        try:
            for half in halves:
                _, writer = await half.__aenter__()
                writer.write(head("POST", CONFIG, "editor", content_length=1000) + b"{")
            await eventually(lambda: metrics.in_flight == 8)
            assert (await server.user("editor")("GET", CONFIG))[0] == 429
            assert (await server.user("viewer")("GET", CONFIG))[0] == 200
            assert (await server.admin("GET", CONFIG))[0] == 200
        finally:
            for half in halves:
                await half.__aexit__(None, None, None)
        await eventually(lambda: metrics.in_flight == 0)


async def test_watches_of_one_user_leave_room_for_others(keys: Keys, tmp_path: Path) -> None:
    async with attacked(keys, tmp_path, limits=Limits(watchers_of_user=2)) as server:
        viewer = server.user("viewer")
        async with viewer.send("GET", f"{CONFIG}?watch=1"), viewer.send("GET", f"{CONFIG}?watch=1"):
            assert (await viewer("GET", f"{CONFIG}?watch=1"))[0] == 429
            async with server.user("editor").send("GET", f"{CONFIG}?watch=1") as response:
                assert response.status == 200


async def test_a_flood_of_requests_on_one_connection_is_cut_off(server: Attacked) -> None:
    async with server.connection() as (reader, writer), measured() as stall:
        writer.write(head("GET", "/version") * 3000)
        answers = await within(closed(reader))
    assert answers.count(b"HTTP/1.1") <= 100
    assert stall.longest < 0.2


async def test_connections_beyond_the_limit_are_closed(keys: Keys, tmp_path: Path) -> None:
    async with attacked(keys, tmp_path, limits=Limits(connections=5)) as server:
        opened = [server.connection() for _ in range(4)]
        for connection in opened:
            await connection.__aenter__()
        async with server.connection() as (reader, writer):
            writer.write(head("GET", "/livez"))
            assert await within(closed(reader)) == b""
        for connection in opened:
            await connection.__aexit__(None, None, None)
        assert (await server.admin("GET", "/version"))[0] == 200
