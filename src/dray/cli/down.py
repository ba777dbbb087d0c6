"""`dray down`: end a cluster that runs in the background, or in another terminal."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dray.cli import _clusters, _containers
from dray.cli._banner import counted

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
    if ended is None:
        print(f"cluster {cluster.name} does not run")
    elif ended.state:
        print(f"cluster {cluster.name} ended; its state is in {ended.state}")
    else:
        print(f"cluster {cluster.name} ended; its state was in memory and is gone")
    if left := len(_containers.running(cluster.directory)):
        print(
            f"{counted(left, 'container')} left running: the next `dray up` finds them again, `dray delete` ends them"
        )
    return 0
