"""What the commands of single parts share: the way to the API server, logs, metrics, leader election, a clean end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dray.api.verbosity import WHY
from dray.cli import fail

if TYPE_CHECKING:
    from aiohttp.web import Request, Response

    from dray.api.gates import FeatureGates
    from dray.client import Client
    from dray.client.config import Config
    from dray.client.http import Http

# -v as Kubernetes' components understand it: 0 to 3 say what happens, 4 what is decided, 5 and more why.
_LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO, 3: logging.INFO, 4: logging.DEBUG}

Run = Callable[["Http", "FeatureGates"], Awaitable[None]]
Probe = Callable[["Client"], Awaitable[object]]
"""A request that a part cannot do without."""
_ASK_AGAIN_SECONDS = 0.5
_SAY_AGAIN_SECONDS = 5.0


def add_options(parser: argparse.ArgumentParser, port: int, *, elects: bool = True) -> None:
    parser.add_argument("--kubeconfig", default="", help="how to reach the API server ($KUBECONFIG, ~/.kube/config)")
    parser.add_argument("--context", default="", help="context of the kubeconfig")
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help="see `dray gates`")
    parser.add_argument(
        "--port", type=int, default=port, help="of /metrics and /healthz, 0 for any, -1 for none (%(default)s)"
    )
    if elects:
        parser.add_argument("--no-leader-elect", action="store_true", help="work at once, without asking for the lease")
    else:
        parser.set_defaults(no_leader_elect=True)
    add_verbosity(parser)


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v",
        "--v",
        type=int,
        default=0,
        metavar="N",
        help="4 logs decisions, 5 also what each scheduling rule says of each node",
    )


def set_up_logging(verbosity: int) -> None:
    logging.addLevelName(WHY, "WHY")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
    logging.getLogger("dray").setLevel(_level(verbosity))


def _level(verbosity: int) -> int:
    return _LEVELS.get(verbosity, WHY if verbosity >= 5 else logging.WARNING)


def on_signals() -> asyncio.Event:
    """What is set when the process is told to end."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def lists_pods(client: Client) -> None:
    """What scheduler and controllers cannot do without."""
    from dray.api.types.core import Pod

    await client.list(Pod, limit=1)


def run_component(name: str, args: argparse.Namespace, run: Run, probe: Probe = lists_pods) -> int:
    """Run one part against the API server until a signal; returns the exit status.

    The part is ready when the server has answered `probe`, the request that the part cannot do without.
    """
    import uvloop

    from dray.api.gates import FeatureGates, GateError
    from dray.client.config import ConfigError, load

    set_up_logging(args.v)
    if not -1 <= args.port < 65536:
        return fail(name, f"port {args.port}: expected a number from 0 to 65535, or -1 for none")
    try:
        gates = FeatureGates.parse(args.feature_gates)
        config = load(args.kubeconfig, args.context)
    except (GateError, ConfigError) as error:
        return fail(name, error)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(name, args, config, gates, run, probe))


async def _run(name: str, args: argparse.Namespace, config: Config, gates: FeatureGates, run: Run, probe: Probe) -> int:
    from dray.client.http import Http

    stopping = on_signals()
    async with Http(config) as client:
        try:
            port = await serve_metrics(args.port)
        except OSError as error:
            return fail(name, f"port {args.port} cannot be used: {error.strerror or error}")
        where = f", metrics at http://127.0.0.1:{port}/metrics" if port else ""
        print(f"dray {name} works for {config.server}{where}", flush=True)
        if not await reached(f"dray {name}", client, probe, stopping):
            return 0
        print("ready", flush=True)
        work = asyncio.create_task(_lead(name, args, client, gates, run))
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not work.done():
            work.cancel()
        [outcome] = await asyncio.gather(work, return_exceptions=True)
    if outcome is None or isinstance(outcome, asyncio.CancelledError):
        return 0
    return fail(name, repr(outcome))


async def reached(prog: str, client: Client, probe: Probe, stopping: asyncio.Event) -> bool:
    """Ask the server until it answers, and say every few seconds why it does not; False when told to stop first."""
    from dray.api.errors import ApiError

    said = -_SAY_AGAIN_SECONDS
    while not stopping.is_set():
        try:
            await probe(client)
            return True
        except ApiError as error:
            now = asyncio.get_running_loop().time()
            if now - said >= _SAY_AGAIN_SECONDS:
                said = now
                print(f"{prog} waits for the API server: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _ASK_AGAIN_SECONDS)
    return False


async def _lead(name: str, args: argparse.Namespace, client: Http, gates: FeatureGates, run: Run) -> None:
    """Run the part whenever this process leads. A process that loses the lease waits for it again."""
    if args.no_leader_elect:
        await run(client, gates)
        return
    from dray.client import LeaderElection, LostLeadership
    from dray.client.http import Http

    logging.getLogger("dray.client.leader").setLevel(min(logging.INFO, _level(args.v)))  # who leads is always told
    identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    election = LeaderElection(client, f"dray-{name}", identity)

    async def lead() -> None:
        async with Http(client.config, fence=election.require_lead) as fenced:
            await run(fenced, gates)

    while True:
        try:
            await election.run(lead)
            return
        except LostLeadership as error:
            print(f"dray {name} does not lead any more and waits for the lease: {error}", file=sys.stderr, flush=True)


async def serve_metrics(port: int) -> int:
    """Serve /metrics, /healthz and /readyz on this machine; the port that was taken, 0 for none."""
    if port < 0:
        return 0
    from aiohttp import web
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    async def metrics(_: Request) -> Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(_: Request) -> Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    for path in ("/healthz", "/livez", "/readyz"):
        app.router.add_get(path, healthy)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    taken: int = runner.addresses[0][1]
    return taken
