"""Parts that are killed outright: the scheduler, the controllers, and a whole cluster on SQLite.

As `test_chaos`, but with processes and SIGKILL, over HTTP; `DRAY_CHAOS=10000x200` sets its size, too.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dray.api.errors import ServiceUnavailable
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client import Client, Object, SharedInformers
from dray.client.config import load
from dray.client.http import Http
from dray.sim import SimulatedNodes
from dray.store import SqliteLog
from tests.e2e.audit import Audit
from tests.e2e.chaos import Chaos, size
from tests.e2e.processes import Process
from tests.ports import free_port
from tests.waiting import eventually

PODS, NODES = size("250x10")
DEVICES = 8
SECONDS = 180.0 + PODS / 20  # to settle, with backoffs of killed parts in between
LIVES = 0.3, 1.0 + PODS / 2000  # seconds between kills: parts that have more to do need more to get anything done
START = 1.0  # seconds that a part takes to start; where it takes longer, it lives longer too
PAUSE = min(0.01, 25 / PODS)  # seconds between pods


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[tuple[Client, Audit]]:
    async with Http(load(str(kubeconfig))) as client:
        audit = Audit(client)
        await audit.start()
        try:
            yield client, audit
        finally:
            await audit.stop()


def killing(dice: random.Random, victims: list[Process]) -> Callable[[], asyncio.Future[None]]:
    """Kills one of the processes after a while and starts it again."""
    slowness = 1.0

    async def disturb() -> None:
        nonlocal slowness
        await asyncio.sleep(dice.uniform(*LIVES) * slowness)
        victim = dice.choice(victims)
        await asyncio.to_thread(victim.kill)
        begun = time.monotonic()
        await asyncio.to_thread(victim.start)
        slowness = max(1.0, (time.monotonic() - begun) / START)

    return lambda: asyncio.ensure_future(disturb())


@pytest.mark.slow
@pytest.mark.timeout(int(4 * SECONDS))
async def test_a_cluster_survives_kills_of_its_scheduler_and_controllers(tmp_path: Path) -> None:
    dice = random.Random(random.randrange(1 << 32))
    server = Process(tmp_path / "server.log", "apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory")
    options = ("--kubeconfig", tmp_path / "kubeconfig", "--port", "-1", "--no-leader-elect")
    parts = [Process(tmp_path / f"{name}.log", name, *options) for name in ("scheduler", "controller-manager")]
    with ExitStack() as stack:
        for process in (server, *parts):
            stack.enter_context(process)
        async with AsyncExitStack() as open_things:
            client, audit = await open_things.enter_async_context(connected(tmp_path / "kubeconfig"))
            await open_things.enter_async_context(simulated(client))
            chaos = Chaos(client, PODS, NODES, DEVICES, dice)
            await chaos.run(killing(dice, parts), PAUSE)
            print(chaos.summary())
            await chaos.settled(SECONDS)
            assert audit.findings == []
        for process in (server, *parts):
            assert "Traceback" not in process.complaints()


@asynccontextmanager
async def simulated(client: Client) -> AsyncIterator[None]:
    informers = SharedInformers(client)
    nodes = SimulatedNodes(client, informers, NODES, DEVICES)
    await informers.start()
    task = asyncio.create_task(nodes.run())
    try:
        yield
    finally:
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await informers.stop()


@pytest.mark.slow
@pytest.mark.timeout(int(4 * SECONDS))
async def test_a_whole_cluster_on_sqlite_survives_kills(tmp_path: Path) -> None:
    dice = random.Random(random.randrange(1 << 32))
    size = ("--nodes", str(NODES), "--devices", str(DEVICES))
    up = Process(tmp_path / "up.log", "up", "--dir", tmp_path, "--port", str(free_port()), *size)
    with up:
        async with connected(tmp_path / "kubeconfig") as (client, audit):
            await eventually(lambda: there(client))
            chaos = Chaos(client, PODS, NODES, DEVICES, dice)
            await chaos.run(killing(dice, [up]), PAUSE)
            print(chaos.summary())
            await chaos.settled(SECONDS)
            assert audit.findings == []
            await eventually(lambda: nothing(client, ResourceClaim))
        assert up.kill(15) == 0
    assert "Traceback" not in up.complaints()
    assert await held_devices(tmp_path / "state.db") == []


async def nothing(client: Client, kind: type[Object]) -> bool:
    return not (await client.list(kind)).items


async def held_devices(database: Path) -> list[str]:
    """What the server noted about devices that are in use."""
    log = await SqliteLog.open(database)
    try:
        page = await log.load()
        return [version.key for version in page.versions if version.key.startswith("deviceholds/")]
    finally:
        await log.close()


async def there(client: Client) -> bool:
    try:
        return len((await client.list(ResourceSlice)).items) == NODES
    except ServiceUnavailable:
        return False
