"""`dray down`: end a cluster that runs in the background, or in another terminal."""

from __future__ import annotations

import argparse

from dray.cli import Subparsers, _clusters, _containers, fail


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("down", help="end a running cluster; its state stays for the next `dray up`")
    _clusters.add_name(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        cluster = _clusters.meant(args)
        ended = cluster.stop()
    except (_clusters.ClusterError, PermissionError) as error:
        return fail("down", error)
    if ended is None:
        print(f"cluster {cluster.name} does not run")
    elif ended.state:
        print(f"cluster {cluster.name} ended; its state is in {ended.state}")
    else:
        print(f"cluster {cluster.name} ended; its state was in memory and is gone")
    if left := _containers.left(cluster.directory):
        print(left)
    return 0
