"""`dray up`: a whole cluster in one process, in the foreground or, with `--detach`, in the background.

The parts talk to the API server without HTTP. They are listed in `_parts`, in the order in which they start; each runs
until it is cancelled, and the cluster ends with the first that fails.
"""

from __future__ import annotations

import argparse

from dray.cli import Subparsers, _detached, _parts, fail
from dray.cli._component import add_verbosity, set_up_logging
from dray.cli._serve import add_options, serve


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("up", help="run a cluster")
    add_options(parser, gates_enable_apis=True)
    parser.add_argument(
        "--detach",
        action="store_true",
        help="run in the background, with a log in DIR; see `dray status` and `dray down`",
    )
    _parts.add_options(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.detach:
        return _detached.start(args)
    if problem := _parts.problem(args):
        return fail("up", problem)
    set_up_logging(args.v)
    return serve("up", args, _parts.parts)
