"""Options of `dray up` and `dray apiserver`, and their output once the server is ready."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dray import __version__
from dray.assembly.options import DEFAULT_PORT
from dray.cli import GATES_HELP, _banner, fail, options_of
from dray.cli._cluster_name import add_cluster, directory_of
from dray.files import read_regular

if TYPE_CHECKING:
    from dray.assembly.options import ServerOptions
    from dray.assembly.parts import ClusterPlan
    from dray.assembly.server import StartedServer

_STORES = (
    "where objects are stored: memory, sqlite (a file in DIR), sqlite:PATH or etcd://HOST:PORT,… (default: sqlite)"
)


def add_options(parser: argparse.ArgumentParser, *, gates_enable_apis: bool) -> None:
    """Add the options of a server. With `gates_enable_apis`, a gate also enables its kinds without a stable version."""
    parser.set_defaults(gates_enable_apis=gates_enable_apis)
    add_cluster(parser)
    parser.add_argument(
        "--merge-kubeconfig",
        action="store_true",
        help="also add a context for the cluster to your own kubeconfig file and make it current",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        help=f"port to listen on; 0: any free port (default: the cluster's last port, else {DEFAULT_PORT}, else any free port)",
    )
    parser.add_argument("--store", default="sqlite", help=_STORES)
    parser.add_argument("--feature-gates", default="", metavar="A=true,…", help=GATES_HELP)
    unless = ", except those of enabled features whose kinds have no stable version" if gates_enable_apis else ""
    parser.add_argument(
        "--runtime-config",
        default="",
        metavar="G/V=true,…",
        help=f"API versions to serve: GROUP/VERSION=true or =false, or api/ga, api/beta, api/alpha, api/all; the most "
        f"specific entry counts (default: beta and alpha versions are off{unless})",
    )
    parser.add_argument(
        "--disable-admission-plugins", default="", metavar="NAME,…", help="admission plugins to turn off"
    )
    for name, default, help_ in (
        (
            "per-minute",
            10.0,
            "maximum ResourcePoolStatusRequests that a user may create per minute (default: %(default)g)",
        ),
        ("burst", 20, "maximum burst of ResourcePoolStatusRequests per user (default: %(default)s)"),
        ("cap", None, "maximum ResourcePoolStatusRequests in the cluster (default: no limit)"),
    ):
        kind = float if isinstance(default, float) else int
        parser.add_argument(f"--pool-status-{name}", type=kind, default=default, metavar="N", help=help_)
    parser.add_argument(
        "--token-auth-file",
        type=Path,
        metavar="FILE",
        help="file with additional users, one per line: TOKEN,USER,UID,GROUPS",
    )
    parser.add_argument(
        "--keys-from",
        type=Path,
        metavar="DIR",
        help="directory of another API server of this cluster; its CA, admin token and service account key are copied to "
        "--dir at the first start",
    )
    parser.add_argument(
        "--shutdown-delay",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds from SIGTERM, when /readyz begins to fail, to the end of watches and requests (default: %(default)g)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="serve without TLS and without authentication, on loopback; for tests only",
    )


def run_server(
    command: str, args: argparse.Namespace, kind: type[ServerOptions], planned: Callable[..., ClusterPlan] | None = None
) -> int:
    """Run a server until a signal. Returns the exit status.

    This is 0 after a signal, 1 if the server cannot run or a component ended, 2 for unusable input.
    """
    from dray.assembly.clusters import ClusterError
    from dray.assembly.containers import left
    from dray.assembly.options import ServerStartError
    from dray.assembly.server import serve
    from dray.store import StoreError

    try:
        args.dir = directory_of(args)
        options = options_of(kind, args)
        if options.token_auth_file is not None:  # named on the command line, so it is input, unlike the files in --dir
            read_regular(options.token_auth_file)
        plan = planned(options) if planned else None
    except (ServerStartError, ClusterError, OSError) as error:
        return fail(command, error)
    try:
        status = serve(options, plan, lambda started: _announce(args, started))
    except (ServerStartError, StoreError) as error:
        return fail(command, str(error))
    if rest := left(options.dir):  # containers that continue are reported only here
        print(rest, file=sys.stderr)
    return status


def _announce(args: argparse.Namespace, started: StartedServer) -> None:
    """Print the address of a ready server, its components and next steps."""
    from dray.assembly import dashboard
    from dray.assembly.description import runs

    print(f"dray {__version__} at {started.url}")
    lines = [
        getattr(args, "as_before", ""),
        *runs(started.options),
        _banner.taken_over(started),
        _banner.off(started.running.gates),
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(*_banner.shown([line for line in lines if line], width), sep="\n")
    if args.merge_kubeconfig:
        print(f"  context {context_of(args.name)} in {started.merge(context_of(args.name))}")
    if sign_in := dashboard.address(started.running, started.url):
        print(f"  dashboard {sign_in}")
    print("next:")
    steps = _banner.next_steps(started.kubeconfig, started.options)
    print(*(f"  {step}" for step in steps), sep="\n")
    print("ready", flush=True)


def context_of(name: str) -> str:
    """Return the name of a cluster's context in the user's own kubeconfig.

    Without a name, this is `dray`.
    """
    return f"dray-{name}" if name else "dray"
