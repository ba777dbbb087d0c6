"""`dray top devices|pools|nodes|claims|groups`: show what is in use, as a table or as data, on any cluster.

A user who may not read claims can still see the usage of pools: the numbers are then requested with
ResourcePoolStatusRequests, which are deleted afterwards. `--watch` reads again every few seconds and redraws. Tables
are in `_top_tables`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dray.assembly.collector import without_collections
from dray.cli import Subparsers, fail
from dray.cli._cluster import add_options, connect, namespace_problem
from dray.cli._output import data
from dray.cli._top_tables import SORT_KEYS, picture, sorted_rows

if TYPE_CHECKING:
    from rich.console import Console, Group

    from dray.client import Client
    from dray.inspect.snapshot import Snapshot


_NAMESPACED = ("claims", "groups")
_ASKING_SECONDS = 10.0  # between requests for pool status, of which a user may make ten per minute


class NotShown(Exception):
    """The requested rows cannot be shown. The text has the reason and an alternative."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "top",
        help="show which devices, pools, nodes and claims are in use, and the state of PodGroups",
        description="Show which devices, pools, nodes and claims are in use, and the state of PodGroups.",
    )
    parser.add_argument("what", choices=("devices", "pools", "nodes", "claims", "groups"), help="what to list")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json", "yaml"),
        default="table",
        help="output format (default: %(default)s)",
    )
    parser.add_argument("-w", "--watch", action="store_true", help="refresh the table until Ctrl-C")
    parser.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="with --watch: seconds between refreshes (default: %(default)g)",
    )
    parser.add_argument("--driver", default="", help="show only devices of this driver")
    parser.add_argument(
        "-n", "--namespace", default="", help="namespace of claims and groups (default: that of the context)"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="show claims or groups of all namespaces")
    keys = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in SORT_KEYS.items())
    parser.add_argument("--sort-by", default="", metavar="KEY", help=f"column to sort by, largest number first. {keys}")
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.client.config import ConfigError

    if problem := _problem(args):
        return fail("top", problem, 2)
    try:
        if args.watch:
            asyncio.run(_watch(args))
        else:
            with without_collections():
                asyncio.run(_once(args))
    except (ApiError, ConfigError, NotShown) as error:
        return fail("top", error)
    return 0


def _problem(args: argparse.Namespace) -> str:
    """Return the error in the arguments, or ""."""
    if args.watch and args.output in ("json", "yaml"):
        return "--watch draws a table; leave it out with -o json or yaml"
    if args.interval <= 0:
        return f"--interval: expected more than 0 seconds, not {args.interval:g}"
    if args.what not in _NAMESPACED and (args.namespace or args.all_namespaces):
        return f"-n and -A select claims and groups; {args.what} belong to no namespace"
    if args.what == "groups" and args.driver:
        return "--driver selects devices; groups have pods on any of them"
    if args.namespace and args.all_namespaces:
        return "expected -n or -A, not both"
    if args.sort_by and args.sort_by not in SORT_KEYS[args.what]:
        return f"--sort-by: expected one of {', '.join(SORT_KEYS[args.what])}, not {args.sort_by}"
    return ""


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


async def _once(args: argparse.Namespace) -> None:
    """Read the cluster and print the rows once.

    Raises NotShown if the rows may not be read or the namespace does not exist.
    """
    async with connect(args) as client:
        rows, _ = await rows_of(client, args)
        if not rows and args.namespace and (problem := await namespace_problem(client, args.namespace)):
            raise NotShown(problem)
    if args.output in ("json", "yaml"):
        print(data(rows, args.output))
    elif rows:
        console = _console()
        console.print(drawn(args, rows, console))
    else:
        print(f"no {args.what}{_where(args)}", file=sys.stderr)


async def _watch(args: argparse.Namespace) -> None:
    """Print the rows repeatedly: redrawn in a terminal, otherwise one table after the other."""
    from rich.live import Live

    console = _console()
    async with connect(args) as client:
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                rows, asked = await rows_of(client, args)
                if console.is_terminal:
                    live.update(drawn(args, rows, console), refresh=True)
                else:
                    console.print(drawn(args, rows, console))
                    sys.stdout.flush()
                await asyncio.sleep(max(args.interval, _ASKING_SECONDS if asked else 0))


# Rows


async def rows_of(client: Client, args: argparse.Namespace) -> tuple[Sequence[Any], bool]:
    """Return the rows, and whether they required ResourcePoolStatusRequests."""
    found, asked = await _found(client, args)
    return sorted_rows(args.what, found, args.sort_by) if args.sort_by else found, asked


async def _found(client: Client, args: argparse.Namespace) -> tuple[Sequence[Any], bool]:
    """Return the unsorted rows, and whether they required ResourcePoolStatusRequests. Raises NotShown."""
    from dray.api.types.core import Pod
    from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.inspect.reading import read
    from dray.questions.occupancy import answered_rows, usage

    namespace = _namespace(client, args)
    if args.what == "groups":
        return await _groups(client, namespace, args), False
    wanted = [(ResourceSlice, ""), (ResourceClaim, namespace), (DeviceTaintRule, ""), (Pod, "")]
    snapshot = await read(client, wanted, namespace)
    if args.what == "claims":
        _must_read(snapshot, ResourceClaim, "give a namespace with -n")
    elif args.what == "pools" and snapshot.unreadable & {ResourceClaim, ResourceSlice}:
        return answered_rows(await _ask(client, snapshot, args.driver)), True
    else:
        _must_read(snapshot, ResourceClaim, "`dray top pools` tells how full pools are")
        _must_read(snapshot, ResourceSlice, "`dray top pools --driver NAME` tells how full pools are")
    _tell_unread(snapshot, args)
    return usage(snapshot, args.what, driver=args.driver, namespace=namespace), False


def _tell_unread(snapshot: Snapshot, args: argparse.Namespace) -> None:
    """Print a warning about resources that the user may not list."""
    if not args.watch and (unread := snapshot.blind_spots()):
        print(f"dray top: you may not list {', '.join(unread)}; what follows from them is not counted", file=sys.stderr)


async def _groups(client: Client, namespace: str, args: argparse.Namespace) -> Sequence[Any]:
    """Return the rows of groups.

    Raises NotShown if groups are not served, or groups or pods may not be listed.
    """
    from dray.api.types.core import Node, Pod
    from dray.api.types.scheduling import PodGroup
    from dray.inspect.reading import read
    from dray.questions.pod_groups import group_rows

    snapshot = await read(client, [(PodGroup, namespace), (Pod, namespace), (Node, "")], namespace)
    if PodGroup in snapshot.unserved:
        raise NotShown("the cluster does not serve podgroups; the feature gate GenericWorkload is off there")
    _must_read(snapshot, PodGroup, "give a namespace with -n")
    _must_read(snapshot, Pod, "give a namespace with -n")
    _tell_unread(snapshot, args)
    return group_rows(snapshot, namespace)


def _namespace(client: Client, args: argparse.Namespace) -> str:
    """Return the namespace of the requested claims or groups; "" for all, and for other rows."""
    if args.what not in _NAMESPACED or args.all_namespaces:
        return ""
    config = getattr(client, "config", None)
    return args.namespace or (config.namespace if config is not None else "")


def _where(args: argparse.Namespace) -> str:
    return f" in namespace {args.namespace}" if args.namespace else ""


def _must_read(snapshot: Snapshot, type_: type[Any], instead: str) -> None:
    """Raise NotShown, with the alternative `instead`, if a type could not be read."""
    from dray.api.resources import BY_TYPE

    if type_ in snapshot.unreadable:
        raise NotShown(f"you may not list {BY_TYPE[type_].plural}; {instead}")


async def _ask(client: Client, snapshot: Snapshot, driver: str) -> list[Any]:
    """Return the answers to ResourcePoolStatusRequests, one per driver.

    An empty driver means all drivers. Raises NotShown if the drivers are unknown or nobody answers.
    """
    from dray.api.types.resource import ResourceSlice

    drivers = [driver] if driver else sorted({one.spec.driver for one in snapshot.all(ResourceSlice)})
    if not drivers and ResourceSlice in snapshot.unreadable:
        raise NotShown("you may list neither resourceclaims nor resourceslices; say which driver with --driver NAME")
    return [await _answer(client, name) for name in drivers]


async def _answer(client: Client, driver: str) -> Any:
    """Return the answer to one ResourcePoolStatusRequest.

    Raises NotShown if nobody answers in time.
    """
    from dray.client.poolstatus import PATIENCE_SECONDS, ask_pool_status

    answer = await ask_pool_status(client, driver, "dray-top")
    if answer is None:
        raise NotShown(
            f"nobody answered within {PATIENCE_SECONDS:g} s; `dray explain request NAME` tells why a request waits"
        )
    return answer


# Output


def drawn(args: argparse.Namespace, rows: Sequence[Any], console: Console) -> Group:
    """Return the table with totals. Output to a pipe is not wrapped."""
    from rich.console import Group

    width = console.width if console.is_terminal else None
    return Group(*picture(args.what, rows, width, wide=args.output == "wide"))
