"""Run one component of a cluster as a process: API client, metrics, leader election, clean shutdown."""

from __future__ import annotations

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
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp.web import Request, Response

    from dray.api.gates import FeatureGates
    from dray.client import Client, LeaderElection, LeaseSettings
    from dray.client.config import Config
    from dray.client.http import Http
    from dray.client.readiness import Readiness

RunComponent = Callable[["Http", "FeatureGates", "Readiness"], Awaitable[None]]
Probe = Callable[["Client"], Awaitable[object]]
"""A request that the component cannot work without."""
_ASK_AGAIN_SECONDS = 0.5
_SAY_AGAIN_SECONDS = 5.0


class ComponentError(Exception):
    """The reason why a component does not start or has ended. The text is shown to the user."""


@dataclass(frozen=True)
class ComponentOptions:
    """How a component connects to its API server and serves metrics: `port` 0 is any free port, -1 none.

    Without limits on requests, those of the kubeconfig apply. `lease` configures leader election; None disables it.
    """

    kubeconfig: str = ""
    context: str = ""
    feature_gates: str = ""
    port: int = 0
    bind_address: str = "127.0.0.1"
    kube_api_qps: float | None = None
    kube_api_burst: int | None = None
    lease: LeaseSettings | None = None
    read_only: bool = False  # the client sends no writes


def on_signals() -> asyncio.Event:
    """Return an event that is set on SIGINT or SIGTERM."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def lists_pods(client: Client) -> None:
    """List pods, which the scheduler and controllers require."""
    from dray.api.types.core import Pod

    await client.list(Pod, limit=1)


def run_component(name: str, options: ComponentOptions, run: RunComponent, probe: Probe = lists_pods) -> None:
    """Run one component with the API server until a signal. Raises ComponentError, GateError and ConfigError.

    The component starts when the server has answered `probe` (even with Forbidden) and, with leader election, when it
    has the lease. Its `Readiness` says when it is ready.
    """
    import uvloop

    from dray.api.gates import FeatureGates
    from dray.client.config import load

    if not -1 <= options.port < 65536:
        raise ComponentError(f"port {options.port}: expected a number from 0 to 65535, or -1 for none")
    gates = FeatureGates.parse(options.feature_gates)
    config = _paced(load(options.kubeconfig, options.context), options)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(name, options, config, gates, run, probe))


def _paced(config: Config, options: ComponentOptions) -> Config:
    """Return the configuration with the request limits of the options."""
    qps, burst = options.kube_api_qps, options.kube_api_burst
    return dataclasses.replace(
        config, qps=config.qps if qps is None else qps, burst=config.burst if burst is None else burst
    )


async def _run(
    name: str, options: ComponentOptions, config: Config, gates: FeatureGates, run: RunComponent, probe: Probe
) -> None:
    """Connect to the API server and run the component until a signal. Raises ComponentError."""
    from dray.client.http import Http
    from dray.client.readiness import Readiness

    stopping = on_signals()
    readiness = Readiness()
    async with Http(config, read_only=options.read_only) as client:
        try:
            port = await serve_metrics(options.port, options.bind_address, readiness)
        except OSError as error:
            raise ComponentError(f"port {options.port} cannot be used: {error.strerror or error}") from error
        where = f", metrics at http://{_bracketed(options.bind_address)}:{port}/metrics" if port else ""
        print(f"dray {name} works for {config.server}{where}", flush=True)
        if not await reached(f"dray {name}", client, probe, stopping):
            return
        gates = await _cluster_gates(client, gates)
        work = asyncio.create_task(_lead(name, options.lease, client, gates, run, readiness))
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
    if isinstance(outcome, ComponentError):
        raise outcome
    if outcome is not None and not isinstance(outcome, asyncio.CancelledError):
        raise ComponentError(repr(outcome))


async def _cluster_gates(client: Http, chosen: FeatureGates) -> FeatureGates:
    """Return the feature gates of the cluster, and print those that differ from the defaults."""
    from dray.client.cluster_gates import discover

    found = await discover(client, chosen)
    if found.differences:
        release = f"Kubernetes {found.release}" if found.release else "of an unknown release"
        print(f"the cluster is {release}; gates as there: {', '.join(found.differences)}", flush=True)
    return found.gates


async def reached(prog: str, client: Client, probe: Probe, stopping: asyncio.Event) -> bool:
    """Send `probe` until the server answers. Returns False if told to stop first.

    Prints the reason every few seconds. Forbidden counts as an answer, because the component itself reports missing
    rights.
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
    name: str, lease: LeaseSettings | None, client: Http, gates: FeatureGates, run: RunComponent, readiness: Readiness
) -> None:
    """Run the component, with a lease only while this process is the leader.

    A process that waits for the lease is ready. A process that loses the lease waits for it again.
    """
    if lease is None:
        await run(client, gates, readiness)
        return
    from dray.client import LeaderElection
    from dray.client.http import Http

    leading = logging.getLogger("dray.client.leader")  # leadership changes are always logged
    leading.setLevel(min(logging.INFO, leading.getEffectiveLevel()))
    identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    # A separate client, so that the request limit does not delay renewals of the lease.
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
    """Run the component whenever this process is the leader, until the component ends."""
    from dray.client import LostLeadership

    while True:
        try:
            await election.run(lead)
            return
        except LostLeadership as error:
            print(f"dray {name} does not lead any more and waits for the lease: {error}", file=sys.stderr, flush=True)


async def _stand_by(election: LeaderElection, readiness: Readiness) -> None:
    """Report readiness once another process is known to be the leader."""
    await election.answered.wait()
    if election.leader != election.identity:
        readiness.start()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def serve_metrics(port: int, address: str, readiness: Readiness) -> int:
    """Serve /metrics, /metrics/resources, /healthz, /livez and /readyz. Returns the port, or 0 if disabled.

    A component that cannot work is alive but not ready, because a restart would not help. A negative port disables
    the server, port 0 lets the system choose a port.
    """
    if port < 0:
        return 0
    from aiohttp import web
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    from dray.client.metrics import OBJECT_FIGURES

    one_at_a_time = asyncio.Lock()

    async def resources(_: Request) -> Response:
        registry = CollectorRegistry()
        async with one_at_a_time:
            if OBJECT_FIGURES.look is not None:  # None while another process is the leader; then the text is empty
                registry.register(OBJECT_FIGURES.look())
            body = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def metrics(_: Request) -> Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(_: Request) -> Response:
        return web.Response(text="ok")

    async def ready(_: Request) -> Response:
        problems = readiness.problems
        return web.Response(text="\n".join(problems) or "ok", status=503 if problems else 200)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/metrics/resources", resources)
    app.router.add_get("/readyz", ready)
    for path in ("/healthz", "/livez"):
        app.router.add_get(path, healthy)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, address, port)
    await site.start()
    taken: int = runner.addresses[0][1]
    return taken
