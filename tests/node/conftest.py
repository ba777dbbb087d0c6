"""An API server in memory, a driver on real sockets, and agents that can be started and stopped."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.users import ADMIN, AUTHENTICATED, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, Clock, InProcess
from dray.node import agent
from dray.node.agent import Agent
from dray.node.lifecycle import RestartDelays
from dray.node.runtime import Runtime
from tests.node.cluster import NODE, Cluster
from tests.node.driver import Driver
from tests.waiting import SECONDS, within


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dn-") as directory:
        yield Path(directory)


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    running = await Running.open(ServerSettings(authenticate=False, disabled_plugins=("ServiceAccount",)))
    yield running
    await running.close()


@pytest.fixture
async def client(server: Running) -> Client:
    return InProcess(server.api, ADMIN)


@pytest.fixture
async def node_client(server: Running) -> Client:
    """The agent's own way in: a node may do what a node must, and no more."""
    return InProcess(server.api, User(f"system:node:{NODE}", groups=("system:nodes", AUTHENTICATED)))


@pytest.fixture
async def cluster(client: Client) -> Cluster:
    return Cluster(client)


@pytest.fixture
async def driver(root: Path) -> AsyncIterator[Driver]:
    driver = Driver(root)
    yield driver
    await driver.stop()


def settings(root: Path, **more: object) -> agent.AgentSettings:
    quick = RestartDelays(first=0.2, last=0.4)
    defaults: dict[str, object] = {"runtime": "process", "cdi_directories": (root / "cdi",), "delays": quick}
    return agent.AgentSettings(NODE, root, **(defaults | more))  # type: ignore[arg-type]  # fields by name


@asynccontextmanager
async def running_agent(
    client: Client, root: Path, *, clock: Clock | None = None, over: Runtime | None = None, **more: object
) -> AsyncIterator[Agent]:
    """An agent, until the block ends; its containers run on."""
    running = Agent(client, settings(root, **more), clock=clock, runtime=over)
    task = asyncio.create_task(running.run())
    started = asyncio.create_task(running.started.wait())
    await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED, timeout=SECONDS)
    try:
        if task.done():
            task.result()
        yield running
    finally:
        started.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def clean(root: Path) -> AsyncIterator[None]:
    """No container survives its test."""
    yield
    from dray.node.runtimes import open_runtime

    runtime = open_runtime("process", root)
    for pod in [*runtime.pods()]:
        for attempt in runtime.attempts(pod):
            if attempt.running:
                await runtime.stop(attempt.key, 0)


@pytest.fixture
async def node(node_client: Client, root: Path, driver: Driver, clean: None) -> AsyncIterator[Agent]:
    """An agent with the runtime `process` and a registered driver."""
    async with running_agent(node_client, root) as running:
        await driver.start()
        await within(driver.registered.wait())
        yield running
