"""`dray dashboard`: the devices of a cluster in the browser, for the user of a kubeconfig, on this machine only."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail, problem
from dray.cli._cluster import add_options
from dray.cli._component import add_verbosity, set_up_logging

if TYPE_CHECKING:
    from dray.cli._access import ClientAccess
    from dray.cli._shown import Shown
    from dray.web.application import Dashboard


_HOST = "127.0.0.1"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "dashboard",
        help="show devices, claims and what waits, in the browser",
        description="Serve a page that shows the devices of a cluster, who holds them, and why pods wait. Only reads.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--recording", metavar="FILE", help="show this instead of a cluster")
    what.add_argument("--demo", action="store_true", help="show a cluster that is made for it, with a moving workload")
    parser.add_argument("--port", type=int, default=0, help="of the page, 0 for any (%(default)s)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("-n", "--namespace", default="", help="to look at where not all may be read (of the context)")
    add_options(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import uvloop

    from dray.api.errors import ApiError
    from dray.api.manifests import ManifestError
    from dray.cli._serve import ServerStartError
    from dray.client.config import ConfigError

    set_up_logging(args.v)
    if not 0 <= args.port < 65536:
        return fail("dashboard", f"port {args.port}: expected a number from 0 to 65535")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(args))
    except (ApiError, ConfigError, ManifestError, ServerStartError, OSError) as error:
        return fail("dashboard", problem(error))


async def _serve(args: argparse.Namespace) -> int:
    from dray.cli._component import on_signals
    from dray.cli._shown import shown

    stopping = on_signals()
    async with shown(args, stopping) as what:
        return await _serve_page(args, what, stopping)


async def _serve_page(args: argparse.Namespace, what: Shown, stopping: asyncio.Event) -> int:
    from dray.apiserver.wire.serving import HttpServer, listen
    from dray.cli import version
    from dray.web.application import Dashboard
    from dray.web.wire import Names

    access = what.access
    dashboard = Dashboard(access, Names(loopback_only=True), gates=what.gates, version=version(), keep_seconds=None)
    with listen(_HOST, args.port) as sock:
        server = HttpServer(dashboard, sock, None)
        await server.start()
        dashboard.open(access.identity)  # history begins now, not with the first page
        running = asyncio.ensure_future(dashboard.run())
        _announce(args, dashboard, access, sock.getsockname()[1])
        try:
            await stopping.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop()
    return 0


def _announce(args: argparse.Namespace, dashboard: Dashboard, access: ClientAccess, port: int) -> None:
    """Print the address with a code, and another one whenever Enter is pressed."""
    from dray.web.application import PREFIX

    def address() -> str:
        code = dashboard.sessions.mint(access.identity.credential)
        return f"http://{_HOST}:{port}{PREFIX}#code={code}"

    def pressed() -> None:
        if sys.stdin.readline():
            print(address(), flush=True)
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    print(
        f"the dashboard of {access.server}, for {access.identity.name}; the address works once, Enter prints another:"
    )
    print(first := address())
    print("ready", flush=True)
    if sys.stdin is not None and sys.stdin.isatty():
        asyncio.get_running_loop().add_reader(sys.stdin, pressed)
    if args.open:
        import webbrowser

        webbrowser.open(first)
