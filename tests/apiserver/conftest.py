"""Servers for tests: one within the process, and one on a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.apiserver.core import ApiServer
from dray.apiserver.read.storage import Storage, decode
from dray.apiserver.security.certificates import Keys
from dray.store import Cache
from tests.apiserver.asking import Asker, HttpAsker, serving
from tests.stores import empty_log


@pytest.fixture
async def cache() -> AsyncIterator[Cache]:
    log = await empty_log()
    cache = await Cache.open(log, decode)
    yield cache
    await cache.close()
    await log.close()


@pytest.fixture
def ask(cache: Cache) -> Asker:
    """A server without guards: everybody may do everything, in any namespace."""
    return Asker(ApiServer(Storage(cache)))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
async def http(keys: Keys) -> AsyncIterator[HttpAsker]:
    """A whole server on a socket, with TLS and users, asked by its administrator."""
    async with serving(keys) as asker:
        yield asker


@pytest.fixture
async def http_all_versions(keys: Keys) -> AsyncIterator[HttpAsker]:
    """A server that serves beta and alpha versions, too."""
    async with serving(keys, runtime_config={"api/all": True}) as asker:
        yield asker


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "dray"
