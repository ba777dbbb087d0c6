"""`dray list`: the clusters of this user."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dray.cli import _clusters

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("list", help="list your clusters, running or not")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = _clusters.clusters()
    if not found:
        print("no clusters; `dray up` makes one")
        return 0
    rows = [("NAME", "STATUS", "SERVER", "DIRECTORY"), *(_row(cluster) for cluster in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return 0


def _row(cluster: _clusters.Cluster) -> tuple[str, str, str, str]:
    record = cluster.record()
    status, url = ("running", record.url) if record is not None else ("stopped", "-")
    return cluster.name, status, url, str(cluster.directory)
