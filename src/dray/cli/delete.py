"""`dray delete`: end a cluster with its containers, and remove all that it left."""

from __future__ import annotations

import argparse
import asyncio

from dray.cli import Subparsers, _clusters, _containers, _kubeconfig, fail
from dray.cli._serve import context_of


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("delete", help="end a cluster and delete its directory: keys, state, logs")
    _clusters.add_name(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        cluster = _clusters.meant(args)
        cluster.stop()
        asyncio.run(_containers.end(cluster.directory))
        cluster.delete()
        _kubeconfig.remove(_kubeconfig.of_user(), context_of(args.name))
    except (_clusters.ClusterError, OSError, ValueError) as error:
        return fail("delete", error)
    print(f"cluster {cluster.name} is deleted")
    return 0
