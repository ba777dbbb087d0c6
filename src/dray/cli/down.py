"""`dray down`: end a cluster that runs in the background, or in another terminal."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dray.cli import _clusters, _containers

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("down", help="end a running cluster; its state stays for the next `dray up`")
    _clusters.add_name(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        cluster = _clusters.meant(args)
        ended = cluster.stop()
    except (_clusters.ClusterError, PermissionError) as error:
        print(f"dray down: {error}", file=sys.stderr)
        return 1
    print(f"cluster {cluster.name} {'ended' if ended else 'does not run'}; its state is in {cluster.directory}")
    if left := len(_containers.running(cluster.directory)):
        print(f"{left} containers go on: the next `dray up` finds them again, `dray delete` ends them")
    return 0
