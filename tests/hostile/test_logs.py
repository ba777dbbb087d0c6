"""Nodes that answer requests for logs in bad faith."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dray.apiserver.limits import Limits
from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, serving
from tests.hostile.attackers import PODS, posted

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def lying(keys: Keys, handler: Handler, limits: Limits, host: str = "127.0.0.1") -> AsyncIterator[HttpAsker]:
    """A server whose node answers as the handler says; asked without TLS, to keep the node short."""
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with serving(keys, secure=False, limits=limits) as admin:
            status = {
                "addresses": [{"type": "InternalIP", "address": host}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
            }
            await posted(admin, "/api/v1/nodes", {"metadata": {"name": "n1"}})
            patch = {"content_type": "application/merge-patch+json"}
            assert (await admin("PATCH", "/api/v1/nodes/n1/status", {"status": status}, **patch))[0] == 200
            spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
            await posted(admin, PODS, {"metadata": {"name": "p"}, "spec": spec})
            yield admin
    finally:
        await runner.cleanup()


async def test_redirects_are_not_followed(keys: Keys) -> None:
    asked: list[str] = []

    async def redirect(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        raise web.HTTPFound("/somebody/elses")

    async with lying(keys, redirect, Limits()) as admin:
        code, _ = await admin("GET", f"{PODS}/p/log")
        assert code == 500
        assert asked == ["/containerLogs/default/p/c"]


async def test_an_endless_refusal_is_cut_short(keys: Keys) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=400)
        await response.prepare(request)
        while True:
            await response.write(b"no " * 10_000)

    async with lying(keys, refuse, Limits()) as admin:
        code, body = await admin("GET", f"{PODS}/p/log")
        assert code == 400
        assert len(body["message"]) <= 4096


async def test_an_endless_log_ends(keys: Keys) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)

    async with lying(keys, flood, Limits(log_bytes=1_000_000)) as admin:
        for path in (f"{PODS}/p/log", "/api/v1/nodes/n1/proxy/metrics"):
            async with admin.send("GET", path) as response:
                assert len(await response.read()) == 1_000_000


@pytest.mark.parametrize("path", [f"{PODS}/p/log", "/api/v1/nodes/n1/proxy/metrics"])
@pytest.mark.parametrize("begins", [False, True])
async def test_a_silent_node_is_left(keys: Keys, begins: bool, path: str) -> None:
    async def keep_silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if begins:
            await response.prepare(request)
        await asyncio.sleep(3600)
        return response

    async with lying(keys, keep_silent, Limits(log_silent_seconds=0.2)) as admin:
        async with admin.send("GET", path) as response:
            assert response.status == (200 if begins else 503)
            with suppress(aiohttp.ClientError):  # what had begun is broken off
                await response.read()
        assert admin.running.api.log_source.reading == 0  # type: ignore[union-attr]  # a NodeLogs


@pytest.mark.parametrize("host", ["127.0.0.1/latest/meta-data?", "user@127.0.0.1", "127.0.0.1#", "a b", "x" * 300])
async def test_an_address_that_is_more_than_an_address_is_refused(keys: Keys, host: str, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        raise AssertionError(f"asked for {request.url}")

    async with lying(keys, answer, Limits(), host) as admin:
        found: Any = await admin("GET", f"{PODS}/p/log")
        assert found[0] == 503
        assert "address that is none" in found[1]["message"]
