"""Streams into containers through the API server: how long an `exec` takes, and how much gets through.

Each figure stands beside the same without the API server: a command that the container's guardian starts, and a plain
process of this machine.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import yaml

from dray.node.runtime import ContainerKey, Task
from dray.node.runtimes import open_runtime
from dray.testing import Cluster

ROUNDS = 60
STREAM_BYTES = 64 << 20
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "x", "command": ["sleep", "1000"]}],
    },
}


def main() -> None:
    plain = [_seconds(lambda: subprocess.run(["true"], check=True)) for _ in range(ROUNDS)]
    print(f"a process, plain: {_shown(plain)}")
    asyncio.run(_guardian())
    with Cluster(agents=1, runtime="process", insecure=True) as cluster:
        cluster.apply(POD)
        cluster.wait("pods", "p", lambda pod: pod["status"].get("phase") == "Running")
        server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        asyncio.run(_through(f"{server}/api/v1/namespaces/default/pods/p/exec"))


async def _guardian() -> None:
    """Commands in a container without an API server."""
    with tempfile.TemporaryDirectory(prefix="db-") as directory:
        runtime, key = open_runtime("process", Path(directory)), ContainerKey("pod", "c", 0)
        await runtime.start(Task(key, ("sleep", "1000")))

        async def once() -> None:
            session = await runtime.exec(key, ["true"])
            await session.wait()
            session.close()

        await once()  # loads what commands need
        print(f"exec by the guardian: {_shown([await _timed(once) for _ in range(ROUNDS)])}")
        await runtime.stop(key, 0)


async def _through(url: str) -> None:
    async with aiohttp.ClientSession() as session:

        async def run(*command: str) -> int:
            words = "&".join(f"command={word}" for word in command)
            size = 0
            async with session.ws_connect(f"{url}?stdout=true&{words}", protocols=("v5.channel.k8s.io",)) as opened:
                async for message in opened:
                    size += len(message.data) - 1 if message.data[0] == 1 else 0
            return size

        async def once() -> None:
            await run("true")

        await once()
        print(f"exec through the API server: {_shown([await _timed(once) for _ in range(ROUNDS)])}")
        begun = time.perf_counter()
        size = await run("head", "-c", str(STREAM_BYTES), "/dev/zero")
        assert size == STREAM_BYTES
        print(f"output through the API server: {size / 1e6 / (time.perf_counter() - begun):.0f} MB/s")


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _shown(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms"
