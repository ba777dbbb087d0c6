"""`dray list`: list the clusters of the user."""

from __future__ import annotations

import argparse

from dray.assembly.clusters import ClusterDirectory, clusters
from dray.cli import Subparsers
from dray.cli._output import columns


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("list", help="list your clusters, running and stopped")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = clusters()
    if not found:
        print("no clusters; `dray up` makes one")
        return 0
    rows = [("NAME", "STATUS", "SERVER", "DIRECTORY"), *(_row(cluster) for cluster in found)]
    print(*columns(rows), sep="\n")
    return 0


def _row(cluster: ClusterDirectory) -> tuple[str, str, str, str]:
    record = cluster.record()
    status, url = ("running", record.url) if record is not None else ("stopped", "-")
    return cluster.name, status, url, str(cluster.directory)
