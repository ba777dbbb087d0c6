"""An agent that is killed again and again, at whatever point it is: nothing is lost, repeated or left behind."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.apiserver.assembly import Running
from dray.apiserver.wire.serving import HttpServer, listen
from dray.node.checkpoint import Checkpoint
from tests.node import nursery
from tests.node.cluster import Cluster
from tests.node.driver import Driver
from tests.waiting import eventually

KILLS = 20
PODS = 24
PACE_SECONDS = 0.3  # between pods


class Agents:
    """One agent at a time; `next` kills it and starts another."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def next(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"next\n")
        assert await self._process.stdout.readline()

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"end\n")
        await self._process.wait()


@pytest.fixture
async def agents(server: Running, root: Path, clean: None) -> AsyncIterator[Agents]:
    sock = listen("127.0.0.1", 0)
    http = HttpServer(server.http, sock, None)
    await http.start()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        nursery.__file__,
        f"http://127.0.0.1:{sock.getsockname()[1]}",
        str(root),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    agents = Agents(process)
    yield agents
    await agents.end()
    await http.stop()


async def use_devices(cluster: Cluster, out: Path) -> dict[str, str]:
    """Pods that come one after the other; the claim of each, by the name of the pod."""
    expected: dict[str, str] = {}
    for number in range(PODS):
        name = f"p{number}"
        # Every third pod shares the claim of the one before it.
        claim = f"c{number - 1 if number % 3 == 2 else number}"
        if number % 3 != 2:
            made = await cluster.claim(claim)
            uid = made.metadata.uid
        expected[name] = uid
        script = f"echo $GPU >> {out / name}; sleep 0.4"
        await cluster.pod(name, script, claims=(claim,), restartPolicy="Never")
        await asyncio.sleep(PACE_SECONDS)
    return expected


@pytest.mark.slow
async def test_an_agent_may_be_killed_at_any_point(
    agents: Agents, cluster: Cluster, driver: Driver, root: Path, tmp_path: Path
) -> None:
    await driver.start()
    chance = random.Random(5)
    pods = asyncio.create_task(use_devices(cluster, tmp_path))
    for _ in range(KILLS):
        await agents.next()
        await asyncio.sleep(chance.uniform(0.02, 0.9))
    await agents.next()
    expected = await pods
    for name in expected:
        await cluster.phase(name, "Succeeded")
    # Each container ran exactly once, with the device of its claim.
    assert {name: (tmp_path / name).read_text().split() for name in expected} == {n: [u] for n, u in expected.items()}
    for name in expected:
        await cluster.delete(name)
    for name in expected:
        await cluster.gone(name)
    await eventually(lambda: not [*(root / "pods").iterdir()])
    assert Checkpoint.open(root / "claims.json")[0].claims == {}
    assert (driver.prepared, driver.cdi_files) == (set(), [])
    assert {uid for uids in driver.called("unprepare") for uid in uids} == {*expected.values()}
