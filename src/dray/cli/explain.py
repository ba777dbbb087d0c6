"""`dray explain`: why a pod, a claim or a request for pool status waits, on any cluster."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from dray.cli._cluster import add_options, connect

if TYPE_CHECKING:
    from dray.inspect.explanation import Explanation

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "claim": "claim",
    "claims": "claim",
    "resourceclaim": "claim",
    "resourceclaims": "claim",
    "request": "request",
    "rpsr": "request",
    "resourcepoolstatusrequest": "request",
}

_COLOURS = {"cause": "bold", "help": "green", "plain": "", "note": "yellow"}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="say why a pod or a claim waits",
        description="Say why a pod, a claim or a ResourcePoolStatusRequest waits, what would help, and who has the devices.",
    )
    parser.add_argument("what", metavar="pod|claim|request", help="or pod/NAME, claim/NAME, request/NAME")
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    parser.add_argument("-n", "--namespace", default="", help="of the pod or claim (that of the context)")
    parser.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="(%(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS", help="what it may take to find out (%(default)s)"
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.client.config import ConfigError
    from dray.inspect.explain import NotThere

    what, _, name = args.what.partition("/")
    kind, name = _KINDS.get(what.casefold(), ""), args.name or name
    if not kind or not name:
        print("dray explain: expected pod NAME, claim NAME or request NAME", file=sys.stderr)
        return 2
    try:
        found = asyncio.run(_explain(args, kind, name))
    except (ApiError, ConfigError, NotThere) as error:
        print(f"dray explain: {error}", file=sys.stderr)
        return 1
    _show(found, args.output)
    return 0


async def _explain(args: argparse.Namespace, kind: str, name: str) -> Explanation:
    from dray.inspect import explain
    from dray.inspect.placement import Deadlines
    from dray.inspect.snapshot import NAMESPACES, REQUESTS, fetch

    async with connect(args) as client:
        namespace = args.namespace or client.config.namespace
        snapshot = await fetch(client, namespace, REQUESTS if kind == "request" else NAMESPACES)
    if kind == "request":
        return explain.explain_request(snapshot, name)
    deadlines = Deadlines.within(args.timeout)
    return (explain.explain_pod if kind == "pod" else explain.explain_claim)(snapshot, namespace, name, deadlines)


def _show(found: Explanation, output: str) -> None:
    from dray.inspect.layout import data_of

    if output == "text":
        _draw(found)
    elif output == "yaml":
        import yaml

        print(str(yaml.safe_dump(data_of(found), sort_keys=False, allow_unicode=True)).rstrip("\n"))
    else:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(data_of(found))).decode())


def _draw(found: Explanation) -> None:
    """On a terminal in colours and within its width; into anything else one line for each thing."""
    from rich.console import Console
    from rich.text import Text

    from dray.inspect.layout import lines_of

    console = Console(highlight=False, soft_wrap=True)
    width = console.width if console.is_terminal else None
    for line in lines_of(found):
        for text in line.wrapped(width):
            console.print(Text(text, style=_COLOURS[line.style]))
