"""A real API server in memory, and both ways to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.read.storage import decode
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, InProcess
from dray.client.brief import BriefHttp
from dray.client.config import Config
from dray.client.http import Http
from dray.store import Cache, MemoryLog, Retention

HISTORY = 100  # events that the server remembers; short, so that tests can outrun it


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    log = MemoryLog()
    cache = await Cache.open(log, decode, retention=Retention(events=HISTORY))
    running = Running(
        log, cache, ServerSettings(authenticate=False, disabled_plugins=("NamespaceDefaults", "ServiceAccount"))
    )
    yield running
    await running.close()


@pytest.fixture
async def near(server: Running) -> Client:
    return InProcess(server.api, ADMIN)


@asynccontextmanager
async def listening(server: Running) -> AsyncIterator[str]:
    """The address where the server can be reached over HTTP."""
    sock = listen("127.0.0.1", 0)
    http = HttpServer(server.http, sock, None)
    await http.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await http.stop()


@pytest.fixture(params=["in-process", "http", "brief"])
async def client(request: pytest.FixtureRequest, server: Running, near: Client) -> AsyncIterator[Client]:
    if request.param == "in-process":
        yield near
        return
    kind = Http if request.param == "http" else BriefHttp
    async with listening(server) as address, kind(Config(address)) as far:
        yield far
