"""`dray explain`: explain why a pod, claim, group, workload or pool status request waits, on any cluster."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING

from dray.assembly.collector import without_collections
from dray.cli import Subparsers, fail
from dray.cli._cluster import add_options, connect, namespace_problem
from dray.cli._output import data

if TYPE_CHECKING:
    from dray.client.http import Http
    from dray.inspect.explanation import WaitExplanation


_NAMES = {
    "pod": ("pods", "po"),
    "claim": ("claims", "resourceclaim", "resourceclaims"),
    "request": ("requests", "rpsr", "resourcepoolstatusrequest", "resourcepoolstatusrequests"),
    "podgroup": ("podgroups",),
    "deployment": ("deployments", "deploy"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
    "daemonset": ("daemonsets", "ds"),
    "job": ("jobs",),
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in (kind, *names)}
_WATCH_SECONDS = 1.0
_ABSENT_SECONDS = 60.0  # many suggestions are to delete and recreate a pod
_COLOURS = {"cause": "bold", "help": "green", "plain": "", "note": "yellow"}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="explain why a pod, claim, PodGroup or workload waits",
        description="Explain why a pod, claim, PodGroup, workload or ResourcePoolStatusRequest waits, what would help, and which pods "
        "hold the devices.",
    )
    parser.add_argument(
        "what", metavar="KIND", nargs="?", default="", help=f"kind of the object: {', '.join(_NAMES)}; or KIND/NAME"
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="name of the object")
    parser.add_argument("-n", "--namespace", default="", help="namespace of the object (default: that of the context)")
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="output format (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="budget of the explanation; one second is 50,000 steps (default: %(default)g)",
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of -o json and exit")
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help="print the explanation again whenever it changes, until nothing waits",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.client.config import ConfigError
    from dray.inspect.explain import NotThere

    if args.schema:
        return _schema()
    what, _, name = args.what.partition("/")
    kind, name = _KINDS.get(what.casefold(), ""), args.name or name
    if problem := _problem(args, what, kind, name):
        return fail("explain", problem, 2)
    try:
        if args.watch:
            asyncio.run(_watch(args, kind, name))
        else:
            with without_collections():
                asyncio.run(_once(args, kind, name))
    except (ApiError, ConfigError, NotThere) as error:
        return fail("explain", error)
    return 0


def _schema() -> int:
    """Print the JSON schema of an explanation. Returns 0."""
    import json

    from dray.inspect.schema import explanation_schema

    print(json.dumps(explanation_schema(), indent=2))
    return 0


def _problem(args: argparse.Namespace, what: str, kind: str, name: str) -> str:
    """Return the error in the arguments, or ""."""
    if not kind:
        return f"expected pod NAME, claim NAME, request NAME or podgroup NAME, or a workload ({', '.join([*_NAMES][4:])}), not {what or 'nothing'}"
    if not name:
        return f"expected {kind} NAME"
    if args.timeout <= 0:
        return f"--timeout: expected more than 0 seconds, not {args.timeout:g}"
    return "--watch draws text; leave it out with -o json or yaml" if args.watch and args.output != "text" else ""


async def _once(args: argparse.Namespace, kind: str, name: str) -> None:
    async with connect(args) as client:
        found = await _explained(client, args, kind, name)
    _show(found, args.output)


async def _watch(args: argparse.Namespace, kind: str, name: str) -> None:
    """Print the explanation whenever it changes, until nothing waits."""
    from dray.inspect.explain import NotThere
    from dray.inspect.layout import text_of

    said = ""
    async with connect(args) as client:
        while True:
            try:
                found = await _explained(client, args, kind, name)
            except NotThere as error:
                if not said:
                    raise
                print(f"\n{error}; waiting {_ABSENT_SECONDS:g} s for a new one", file=sys.stderr)
                found = await _made_again(client, args, kind, name)
            if text_of(found) != said:
                print(end="\n" if said else "")
                _show(found, args.output)
                sys.stdout.flush()
            if not found.waits:
                return
            said = text_of(found)
            await asyncio.sleep(_WATCH_SECONDS)


async def _made_again(client: Http, args: argparse.Namespace, kind: str, name: str) -> WaitExplanation:
    """Return the explanation of a deleted object once it exists again. Raises `NotThere` after a minute."""
    from dray.inspect.explain import NotThere

    ends = time.monotonic() + _ABSENT_SECONDS
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        try:
            return await _explained(client, args, kind, name)
        except NotThere:
            if time.monotonic() >= ends:
                raise


async def _explained(client: Http, args: argparse.Namespace, kind: str, name: str) -> WaitExplanation:
    """Return the explanation of an object.

    Raises NotThere if the object or its namespace does not exist.
    """
    from dray.inspect.reading import NAMESPACES, REQUESTS, fetch
    from dray.inspect.snapshot import WORKLOADS
    from dray.questions import Allowance, NotThere, explain

    namespace = args.namespace or client.config.namespace
    snapshot = await fetch(client, namespace, REQUESTS if kind == "request" else (*NAMESPACES, *WORKLOADS))
    try:
        return explain(snapshot, kind, name, namespace, Allowance.within(args.timeout))
    except NotThere:
        if problem := await namespace_problem(client, namespace):
            raise NotThere(problem) from None
        raise


def _show(found: WaitExplanation, output: str) -> None:
    """Print an explanation in the requested format."""
    from dray.inspect.layout import data_of

    if output == "text":
        _draw(found)
    else:
        print(data(data_of(found), output))


def _draw(found: WaitExplanation) -> None:
    """Print an explanation: in a terminal with colours and wrapped, otherwise one line per item."""
    from rich.console import Console
    from rich.text import Text

    from dray.inspect.layout import lines_of

    console = Console(highlight=False, soft_wrap=True)
    width = console.width if console.is_terminal else None
    for line in lines_of(found):
        for text in line.wrapped(width):
            console.print(Text(text, style=_COLOURS[line.style]))
