"""What the commands of single parts share: the way to the API server, logs, metrics, leader election, a clean end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
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
    from dray.client import Client, LeaderElection, LeaseSettings
    from dray.client.config import Config
    from dray.client.http import Http
    from dray.client.readiness import Readiness

# -v as Kubernetes' components understand it: 0 to 3 say what happens, 4 what is decided, 5 and more why.
_LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO, 3: logging.INFO, 4: logging.DEBUG}

Run = Callable[["Http", "FeatureGates", "Readiness"], Awaitable[None]]
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
    parser.add_argument(
        "--bind-address",
        default="127.0.0.1",
        metavar="IP",
        help="where /metrics, /healthz and /readyz are served; in a pod 0.0.0.0, for probes (%(default)s)",
    )
    parser.add_argument("--kube-api-qps", type=float, metavar="N", help="requests a second at most (0: no limit)")
    parser.add_argument("--kube-api-burst", type=int, metavar="N", help="requests at once under that limit (10)")
    if elects:
        parser.add_argument("--no-leader-elect", action="store_true", help="work at once, without asking for the lease")
        parser.add_argument("--lease-name", metavar="NAME", help="of the lease that decides who leads (dray-COMMAND)")
        parser.add_argument("--lease-namespace", metavar="NAME", help="of the lease (kube-system)")
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


def lease_of(name: str, args: argparse.Namespace, **durations: float) -> LeaseSettings | None:
    """The lease that the options ask for, None for none. Raises ValueError."""
    from dray.client import LeaseSettings

    if args.no_leader_elect:
        return None
    return LeaseSettings(args.lease_name or f"dray-{name}", args.lease_namespace or "kube-system", **durations)


def run_component(
    name: str, args: argparse.Namespace, run: Run, probe: Probe = lists_pods, *, lease: LeaseSettings | None = None
) -> int:
    """Run one part against the API server until a signal; returns the exit status.

    The part begins when the server has answered `probe`, be it with Forbidden, and when it has the lease, where it needs
    one. It is ready as its `Readiness` says.
    """
    import uvloop

    from dray.api.gates import FeatureGates, GateError
    from dray.client.config import ConfigError, load

    set_up_logging(args.v)
    if not -1 <= args.port < 65536:
        return fail(name, f"port {args.port}: expected a number from 0 to 65535, or -1 for none")
    try:
        gates = FeatureGates.parse(args.feature_gates)
        config = _paced(load(args.kubeconfig, args.context), args)
    except (GateError, ConfigError) as error:
        return fail(name, error)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(name, args, config, gates, run, probe, lease))


def _paced(config: Config, args: argparse.Namespace) -> Config:
    limits = {"qps": args.kube_api_qps, "burst": args.kube_api_burst}
    return dataclasses.replace(config, **{key: value for key, value in limits.items() if value is not None})


async def _run(
    name: str,
    args: argparse.Namespace,
    config: Config,
    gates: FeatureGates,
    run: Run,
    probe: Probe,
    lease: LeaseSettings | None,
) -> int:
    from dray.client.http import Http
    from dray.client.readiness import Readiness

    stopping = on_signals()
    readiness = Readiness()
    async with Http(config) as client:
        try:
            port = await serve_metrics(args.port, args.bind_address, readiness)
        except OSError as error:
            return fail(name, f"port {args.port} cannot be used: {error.strerror or error}")
        where = f", metrics at http://{_bracketed(args.bind_address)}:{port}/metrics" if port else ""
        print(f"dray {name} works for {config.server}{where}", flush=True)
        if not await reached(f"dray {name}", client, probe, stopping):
            return 0
        gates = await _cluster_gates(client, gates)
        work = asyncio.create_task(_lead(name, lease, args.v, client, gates, run, readiness))
        stop = asyncio.create_task(stopping.wait())
        started = asyncio.create_task(readiness.started())
        await asyncio.wait((work, stop, started), return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            print("ready", flush=True)
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        started.cancel()
        if not work.done():
            work.cancel()
        [outcome] = await asyncio.gather(work, return_exceptions=True)
    if outcome is None or isinstance(outcome, asyncio.CancelledError):
        return 0
    return fail(name, repr(outcome))


async def _cluster_gates(client: Http, chosen: FeatureGates) -> FeatureGates:
    """The gates of the cluster; says what is different there from the defaults."""
    from dray.client.cluster_gates import discover

    found = await discover(client, chosen)
    if found.differences:
        release = f"Kubernetes {found.release}" if found.release else "of an unknown release"
        print(f"the cluster is {release}; gates as there: {', '.join(found.differences)}", flush=True)
    return found.gates


async def reached(prog: str, client: Client, probe: Probe, stopping: asyncio.Event) -> bool:
    """Ask the server until it answers, and say every few seconds why it does not; False when told to stop first.

    Forbidden is an answer: whoever does the work reports what it may not do.
    """
    from dray.api.errors import ApiError, Forbidden

    said = -_SAY_AGAIN_SECONDS
    while not stopping.is_set():
        try:
            await probe(client)
            return True
        except Forbidden:
            return True
        except ApiError as error:
            now = asyncio.get_running_loop().time()
            if now - said >= _SAY_AGAIN_SECONDS:
                said = now
                print(f"{prog} waits for the API server: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _ASK_AGAIN_SECONDS)
    return False


async def _lead(
    name: str,
    lease: LeaseSettings | None,
    verbosity: int,
    client: Http,
    gates: FeatureGates,
    run: Run,
    readiness: Readiness,
) -> None:
    """Do the work, whenever this process leads where there is a lease; who waits for the lease is ready to take over.

    A process that loses the lease waits for it again.
    """
    if lease is None:
        await run(client, gates, readiness)
        return
    from dray.client import LeaderElection
    from dray.client.http import Http

    logging.getLogger("dray.client.leader").setLevel(min(logging.INFO, _level(verbosity)))  # who leads is always told
    identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    # A client of its own, since a limit on requests must not cost the lease.
    async with Http(dataclasses.replace(client.config, qps=0.0)) as own:
        election = LeaderElection(own, lease, identity)
        readiness.check("lease", lambda: [election.problem] if election.problem else [])

        async def lead() -> None:
            async with Http(client.config, fence=election.require_lead) as fenced:
                await run(fenced, gates, readiness)

        standing_by = asyncio.create_task(_stand_by(election, readiness))
        try:
            await _lead_again_and_again(name, election, lead)
        finally:
            standing_by.cancel()


async def _lead_again_and_again(name: str, election: LeaderElection, lead: Callable[[], Awaitable[None]]) -> None:
    from dray.client import LostLeadership

    while True:
        try:
            await election.run(lead)
            return
        except LostLeadership as error:
            print(f"dray {name} does not lead any more and waits for the lease: {error}", file=sys.stderr, flush=True)


async def _stand_by(election: LeaderElection, readiness: Readiness) -> None:
    await election.answered.wait()
    if election.leader != election.identity:
        readiness.start()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def serve_metrics(port: int, address: str, readiness: Readiness) -> int:
    """Serve /metrics, /healthz, /livez and /readyz; the port that was taken, 0 for none.

    A part that cannot do its work lives, but is not ready: to start it again would not help.
    """
    if port < 0:
        return 0
    from aiohttp import web
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    async def metrics(_: Request) -> Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(_: Request) -> Response:
        return web.Response(text="ok")

    async def ready(_: Request) -> Response:
        problems = readiness.problems
        return web.Response(text="\n".join(problems) or "ok", status=503 if problems else 200)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/readyz", ready)
    for path in ("/healthz", "/livez"):
        app.router.add_get(path, healthy)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, address, port)
    await site.start()
    taken: int = runner.addresses[0][1]
    return taken
