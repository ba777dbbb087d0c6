"""The cluster that `dray dashboard` shows: one from a kubeconfig, a recording, or a demonstration."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api.gates import FeatureGates
from dray.assembly.access import ClientAccess
from dray.assembly.clusters import DEMO
from dray.assembly.demo import GATES, PROFILE, keep_busy
from dray.assembly.options import ClusterOptions
from dray.web.access import SessionIdentity

if TYPE_CHECKING:
    from dray.assembly.server import StartedServer
    from dray.client.http import Http

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Shown:
    """The user of the page, and the feature gates of the cluster."""

    access: ClientAccess
    gates: FeatureGates = field(default_factory=FeatureGates)


async def cluster(connect: Callable[[], Http], namespace: str) -> Shown:
    """Return the cluster of a kubeconfig, with the name of its user."""
    from dray.api.errors import Forbidden, NotFound
    from dray.api.types.authentication import SelfSubjectReview

    client = connect()
    async with client:
        try:
            user = (await client.create(SelfSubjectReview, {})).status.userInfo
            name, groups = user.username, tuple(user.groups)
        except (Forbidden, NotFound):  # a cluster of an older version
            name, groups = "the user of the kubeconfig", ()
    namespace = namespace or client.config.namespace
    identity = SessionIdentity(name, {"local": client.config.server}, groups, namespace)
    return Shown(ClientAccess(connect, identity, client.config.server))


def recording(file: str) -> Shown:
    """Return a recorded cluster, for the dashboard to show. Raises ManifestError."""
    from dray.recordings.client import Recorded
    from dray.recordings.manifests import read_manifests

    gates = FeatureGates()
    client = Recorded(read_manifests([file], gates))
    identity = SessionIdentity("whoever has the file", {"local": file})
    return Shown(ClientAccess(lambda: client, identity, Path(file).name, "recording"), gates)


@asynccontextmanager
async def demonstration() -> AsyncIterator[Shown]:
    """Run a demonstration cluster with a changing workload in this process, as a context manager."""
    from dray.api.users import ADMIN
    from dray.assembly.parts import plan_of
    from dray.assembly.server import serve_until
    from dray.client import InProcess

    with tempfile.TemporaryDirectory(prefix=DEMO) as directory:
        options = ClusterOptions(dir=Path(directory), store="memory", port=0, profile=PROFILE, feature_gates=GATES)
        started: asyncio.Future[StartedServer] = asyncio.get_running_loop().create_future()
        ending = asyncio.Event()
        serving = asyncio.ensure_future(serve_until(ending, options, plan_of(options), started.set_result))
        first: set[asyncio.Future[Any]] = {serving, started}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        running = started.result().running
        client = InProcess(running.api, ADMIN, user_agent="dray-demo")
        busy = asyncio.ensure_future(keep_busy(client))
        try:
            identity = SessionIdentity("a visitor", {"local": "demo"})
            access = ClientAccess(lambda: client, identity, "a cluster for demonstrations", "demo")
            yield Shown(access, running.gates)
        finally:
            busy.cancel()
            await asyncio.gather(busy, return_exceptions=True)
            ending.set()
            await serving


async def serve_page(
    what: Shown, sock: socket.socket, stopping: asyncio.Event, ready: Callable[[Callable[[], str]], None]
) -> None:
    """Serve the dashboard of a cluster on a socket until `stopping` is set.

    `ready` receives a function that returns a new URL, valid for one browser, on each call.
    """
    from dray import __version__
    from dray.apiserver.wire.serving import HttpServer
    from dray.web.application import PREFIX, Dashboard
    from dray.web.wire import Names

    access = what.access
    dashboard = Dashboard(access, Names(loopback_only=True), gates=what.gates, version=__version__, keep_seconds=None)

    def address() -> str:
        code = dashboard.sessions.mint(access.identity.credential)
        return f"http://{HOST}:{sock.getsockname()[1]}{PREFIX}#code={code}"

    server = HttpServer(dashboard, sock, None)
    await server.start()
    dashboard.open(access.identity)  # history starts now, not with the first page
    running = asyncio.ensure_future(dashboard.run())
    ready(address)
    try:
        await stopping.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()
