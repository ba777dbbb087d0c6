"""`dray version`: print the versions of dray, of the implemented Kubernetes API, and of Python."""

from __future__ import annotations

import argparse
import platform

from dray import KUBERNETES_VERSION, __version__
from dray.cli import Subparsers
from dray.cli._output import data


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("version", help="show the versions of dray, Python and the Kubernetes API")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.output == "json":
        print(
            data({"dray": __version__, "kubernetes": KUBERNETES_VERSION, "python": platform.python_version()}, "json")
        )
    else:
        print(f"dray {__version__}, Kubernetes API {KUBERNETES_VERSION}, Python {platform.python_version()}")
    return 0
