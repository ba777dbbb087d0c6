"""`dray down`: stop a cluster that runs in the background or in another terminal."""

from __future__ import annotations

import argparse

from dray.assembly.clusters import ClusterError
from dray.cli import Subparsers, fail
from dray.cli._cluster_name import add_existing, existing


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("down", help="stop a running cluster; its state is kept for the next `dray up`")
    add_existing(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.assembly.containers import left

    try:
        cluster = existing(args)
        ended = cluster.stop()
    except (ClusterError, PermissionError) as error:
        return fail("down", error)
    if ended is None:
        print(f"cluster {cluster.name} does not run")
    elif ended.state:
        print(f"cluster {cluster.name} ended; its state is in {ended.state}")
    else:
        print(f"cluster {cluster.name} ended; its state was in memory and is gone")
    if rest := left(cluster.directory):
        print(rest)
    return 0
