"""`dray apiserver`: run only the API server, for clusters whose other components are separate processes."""

from __future__ import annotations

import argparse

from dray.assembly.options import ServerOptions
from dray.cli import Subparsers
from dray.cli._component import add_verbosity, set_up_logging
from dray.cli._server import add_options, run_server


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("apiserver", help="run only the API server")
    add_options(parser, gates_enable_apis=False)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    set_up_logging(args.v, args.log_format)
    return run_server("apiserver", args, ServerOptions)
