"""A real API server in memory, and controllers on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from dray.api.errors import NotFound
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, Clock, EventRecorder, InProcess, Object, SharedInformers
from dray.controllers import ControllerContext, Runnable
from tests import waiting
from tests.waiting import eventually, within

Start = Callable[..., AbstractAsyncContextManager[ControllerContext]]


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    running = await Running.open(
        ServerSettings(authenticate=False, disabled_plugins=("ServiceAccount", "NamespaceDefaults"))
    )
    yield running
    await running.close()


@pytest.fixture
def client(server: Running) -> Client:
    return InProcess(server.api, ADMIN)


@pytest.fixture
def start(client: Client) -> Start:
    """Runs controllers, made by the given factories, until the block ends; `own` is the client that they write with."""

    @asynccontextmanager
    async def started(
        *factories: Callable[[ControllerContext], Runnable],
        clock: Clock | None = None,
        root_ca: str = "",
        own: Client | None = None,
    ) -> AsyncIterator[ControllerContext]:
        informers = SharedInformers(client)
        recorder = EventRecorder(client, "test")
        context = ControllerContext(
            own or client, informers, recorder, root_ca=root_ca, **({"clock": clock} if clock else {})
        )
        controllers = [factory(context) for factory in factories]
        await informers.start()
        await within(informers.synced())
        tasks = [asyncio.create_task(c.run()) for c in (*controllers, recorder)]
        try:
            yield context
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await informers.stop()

    return started


async def exists(client: Client, type_: type[Object], name: str, namespace: str = "") -> bool:
    try:
        await client.get(type_, name, namespace)
    except NotFound:
        return False
    return True


async def gone(client: Client, type_: type[Object], name: str, namespace: str = "") -> None:
    """Wait until an object does not exist."""

    async def is_gone() -> bool:
        return not await exists(client, type_, name, namespace)

    await eventually(is_gone)


async def quiet(seconds: float = 0.1) -> None:
    """Give controllers time to do something that they should not do."""
    await waiting.quiet(seconds)
