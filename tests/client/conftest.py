"""A real API server in memory, and both ways to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dray.apiserver.core import ApiServer
from dray.apiserver.storage import Storage, decode
from dray.apiserver.user import ADMIN
from dray.client import Client, InProcess
from dray.store import Cache, MemoryLog, Retention

HISTORY = 100  # events that the server remembers; short, so that tests can outrun it


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    log = MemoryLog()
    cache = await Cache.open(log, decode, retention=Retention(events=HISTORY))
    yield ApiServer(Storage(cache))
    await cache.close()
    await log.close()


@pytest.fixture
async def near(server: ApiServer) -> Client:
    return InProcess(server, ADMIN)


@pytest.fixture(params=["in-process"])
async def client(request: pytest.FixtureRequest, near: Client) -> Client:
    return near
