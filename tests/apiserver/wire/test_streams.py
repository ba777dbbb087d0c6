"""Watches over HTTP with clients that behave badly."""

from __future__ import annotations

import asyncio
import json

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import serving
from tests.waiting import eventually

CONFIG = "/api/v1/namespaces/default/configmaps"


async def test_a_client_that_does_not_read_is_left(keys: Keys) -> None:
    async with serving(keys, secure=False, limits=Limits(unread_seconds=0.3)) as http:
        port = int(http.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
        writer.write(f"GET {CONFIG}?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        metrics = http.running.http.metrics
        await eventually(lambda: metrics.watchers == 1)
        for number in range(40):
            body = {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 500_000}}
            assert (await http("POST", CONFIG, json.dumps(body), content_type="application/json"))[0] == 201
        await eventually(lambda: metrics.watchers == 0)
        writer.close()


async def test_a_request_that_stops_in_the_middle_does_not_hold_anybody_up(keys: Keys) -> None:
    async with serving(keys, secure=False) as http:
        port = int(http.url.rpartition(":")[2])
        halves = []
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"POST {CONFIG} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{".encode())
            halves.append(writer)
        assert (await http("GET", CONFIG))[0] == 200
        for writer in halves:
            writer.close()
        await eventually(lambda: http.running.http.metrics.in_flight == 0)
