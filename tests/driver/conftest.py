"""A real API server in memory with one node, and short directories for sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dray.api.types.core import Node
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess
from tests.driver.places import Places

NODE = "node-1"


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    running = await Running.open(ServerSettings(authenticate=False))
    yield running
    await running.close()


@pytest.fixture
async def client(server: Running) -> Client:
    client = InProcess(server.api, ADMIN)
    await client.create(Node, {"metadata": {"name": NODE}})
    return client


@pytest.fixture
def places() -> Iterator[Places]:
    """Directories with short names, since the path of a socket has 107 bytes at most."""
    root = Path(tempfile.mkdtemp(prefix="dray-"))
    yield Places(root)
    shutil.rmtree(root)
