"""The backends under test: memory, a SQLite file, a real etcd process."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from dray.store import Cache, EtcdLog, Log, MemoryLog, SqliteLog
from tests.store.damaging import State, write
from tests.store.etcd_process import Etcd


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = Etcd(tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def log(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    opened: Log
    if backend == "memory":
        opened = MemoryLog()
    elif backend == "sqlite":
        opened = await SqliteLog.open(tmp_path / "store.db")
    else:
        server: Etcd = request.getfixturevalue("etcd")
        opened = await EtcdLog.open([server.endpoint], prefix=f"/{uuid.uuid4()}/")
    yield opened
    await opened.close()


@pytest.fixture
async def open_cache() -> AsyncIterator[Callable[..., Awaitable[Cache]]]:
    """`Cache.open`, with the closing done."""
    caches = []

    async def open_(*arguments: object, **options: object) -> Cache:
        caches.append(await Cache.open(*arguments, **options))  # type: ignore[arg-type]  # passed on as they are
        return caches[-1]

    yield open_
    for cache in caches:
        await cache.close()


@pytest.fixture
async def cache(log: Log, open_cache: Callable[..., Awaitable[Cache]]) -> Cache:
    return await open_cache(log)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, State]:
    """A database that was closed, one that has its write-ahead log beside it, and what is in both."""
    place = tmp_path_factory.mktemp("written")
    closed, killed = place / "closed.db", place / "killed.db"
    return closed, killed, asyncio.run(write(closed, killed))
