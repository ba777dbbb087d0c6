"""What `dray dashboard` shows: a cluster of a kubeconfig, a recording, or a cluster that is made for a demonstration."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.gates import FeatureGates
from dray.cli._access import ClientAccess
from dray.cli._demo import GATES, PROFILE, keep_busy
from dray.web.access import SessionIdentity

_DEMO = ("--store", "memory", "--port", "0", "--profile", PROFILE, "--feature-gates", GATES)


@dataclass(frozen=True)
class Shown:
    """Whom the page is for, and which features the cluster has."""

    access: ClientAccess
    gates: FeatureGates = field(default_factory=FeatureGates)


@asynccontextmanager
async def shown(args: argparse.Namespace, stopping: asyncio.Event) -> AsyncIterator[Shown]:
    """Open what is to be shown. Raises ConfigError, ApiError, ManifestError, StartError."""
    if args.recording:
        yield _recording(args.recording)
    elif args.demo:
        async with _demo(stopping) as what:
            yield what
    else:
        yield await _cluster(args)


async def _cluster(args: argparse.Namespace) -> Shown:
    """The cluster of a kubeconfig, and the name that its user has there."""
    from dray.api.errors import Forbidden, NotFound
    from dray.api.types.authentication import SelfSubjectReview
    from dray.cli._cluster import connect

    client = connect(args)
    async with client:
        try:
            user = (await client.create(SelfSubjectReview, {})).status.userInfo
            name, groups = user.username, tuple(user.groups)
        except (Forbidden, NotFound):  # an older cluster
            name, groups = "the user of the kubeconfig", ()
    namespace = args.namespace or client.config.namespace
    identity = SessionIdentity(name, {"local": client.config.server}, groups, namespace)
    return Shown(ClientAccess(lambda: connect(args), identity, client.config.server))


def _recording(file: str) -> Shown:
    from dray.cli._manifests import read_manifests
    from dray.cli._recorded import Recorded

    gates = FeatureGates()
    client = Recorded(read_manifests([file], gates))
    identity = SessionIdentity("whoever has the file", {"local": file})
    return Shown(ClientAccess(lambda: client, identity, Path(file).name, "recording"), gates)


@asynccontextmanager
async def _demo(stopping: asyncio.Event) -> AsyncIterator[Shown]:
    """A whole cluster in this process, and somebody who keeps it busy."""
    from dray.api.users import ADMIN
    from dray.apiserver.assembly import Running
    from dray.apiserver.security.certificates import Keys
    from dray.cli import _parts, parser_of
    from dray.cli._serve import serve_until
    from dray.client import InProcess

    with tempfile.TemporaryDirectory(prefix="dray-demo-") as directory:
        args = parser_of("dray", ["up"]).parse_args(["up", "--dir", directory, *_DEMO])
        started: asyncio.Future[Running] = asyncio.get_running_loop().create_future()

        def ready(running: Running, keys: Keys, url: str, took_over: str) -> None:
            started.set_result(running)

        ending = asyncio.Event()
        serving = asyncio.ensure_future(serve_until(ending, args, _parts.parts, ready))
        first: set[asyncio.Future[Any]] = {serving, started}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        running = started.result()
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
