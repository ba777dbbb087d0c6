"""`dray delete`: stop a cluster and its containers, and delete all its files."""

from __future__ import annotations

import argparse
import asyncio

from dray.assembly import kubeconfig
from dray.assembly.clusters import ClusterError
from dray.cli import Subparsers, fail
from dray.cli._cluster_name import add_existing, existing
from dray.cli._server import context_of


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("delete", help="stop a cluster and delete its directory: keys, state, logs")
    add_existing(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.assembly.containers import end

    try:
        cluster = existing(args)
        cluster.stop()
        asyncio.run(end(cluster.directory))
        cluster.delete()
        kubeconfig.remove(kubeconfig.of_user(), context_of(args.name))
    except (ClusterError, OSError, ValueError) as error:
        return fail("delete", error)
    print(f"cluster {cluster.name} is deleted")
    return 0
