"""`dray dashboard`: show the devices of a cluster in the browser, for the user of a kubeconfig, on this machine only."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail
from dray.cli._cluster import add_options, connect
from dray.cli._component import add_verbosity, set_up_logging

if TYPE_CHECKING:
    from dray.assembly.shown import Shown


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "dashboard",
        help="show devices, claims and waiting pods in the browser",
        description="Serve a page that shows the devices of a cluster, which pods hold them, and why pods wait. Reads only.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--recording", metavar="FILE", help="show a recording instead of a cluster")
    what.add_argument("--demo", action="store_true", help="show an invented cluster with a changing workload")
    parser.add_argument("--port", type=int, default=0, help="port of the page; 0: any free port (default: %(default)s)")
    parser.add_argument("--open", action="store_true", help="open the page in the default browser")
    parser.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace to show if you may not read all of them (default: that of the context)",
    )
    add_options(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import uvloop

    from dray.api.errors import ApiError
    from dray.api.manifests import ManifestError
    from dray.assembly.options import ServerStartError
    from dray.client.config import ConfigError

    set_up_logging(args.v, args.log_format)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(args))
    except (ApiError, ConfigError, ManifestError, ServerStartError, OSError) as error:
        return fail("dashboard", error)
    return 0


async def _serve(args: argparse.Namespace) -> None:
    """Serve the dashboard until a signal."""
    from dray.assembly.component import on_signals
    from dray.assembly.server import listen_at
    from dray.assembly.shown import HOST, cluster, demonstration, recording, serve_page

    stopping = on_signals()
    async with AsyncExitStack() as stack:
        sock = stack.enter_context(listen_at(HOST, args.port))
        if args.recording:
            what = recording(args.recording)
        elif args.demo:
            what = await stack.enter_async_context(demonstration())
        else:
            what = await cluster(lambda: connect(args, briefly=False), args.namespace)
        await serve_page(what, sock, stopping, partial(_announce, args, what))


def _announce(args: argparse.Namespace, what: Shown, address: Callable[[], str]) -> None:
    """Print a one-time URL, and another one whenever Enter is pressed."""

    def pressed() -> None:
        if sys.stdin.readline():
            print(address(), flush=True)
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    name = what.access.identity.name
    print(f"the dashboard of {what.access.server}, for {name}; the address works once, Enter prints another:")
    print(first := address())
    print("ready", flush=True)
    if sys.stdin is not None and sys.stdin.isatty():
        asyncio.get_running_loop().add_reader(sys.stdin, pressed)
    if args.open:
        import webbrowser

        webbrowser.open(first)
