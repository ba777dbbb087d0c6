"""`dray status`: show whether a cluster runs, its components, and whether it answers."""

from __future__ import annotations

import argparse
import asyncio

from dray.assembly.clusters import ClusterError
from dray.assembly.description import counted
from dray.cli import Subparsers, fail
from dray.cli._cluster_name import add_existing, existing


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("status", help="show whether a cluster runs; exit status 3 if it does not")
    add_existing(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.errors import ApiError
    from dray.assembly.answering import answer_of
    from dray.client.config import ConfigError

    try:
        cluster = existing(args)
    except ClusterError as error:
        return fail("status", error)
    record = cluster.record()
    if record is None:
        print(f"cluster {cluster.name} does not run; `dray up{cluster.option}` starts it again in {cluster.directory}")
        return 3
    print(f"cluster {cluster.name} runs at {record.url} since {record.started} (process {record.pid})")
    print(*(f"  {line}" for line in record.runs), sep="\n")
    try:
        found = asyncio.run(answer_of(cluster))
    except (ApiError, ConfigError, TimeoutError, OSError) as error:
        print(f"  does not answer: {error or type(error).__name__}")
        return 1
    for lease in found.leases:
        holder = lease.spec.holderIdentity or "nobody"
        print(f"  {lease.metadata.name}: {holder} leads, renewed at {lease.spec.renewTime}")
    if found.dashboard:
        print(f"  dashboard (this address admits one browser): {found.dashboard}")
    counts = counted(found.nodes, "node"), counted(found.pods, "pod"), counted(found.claims, "claim")
    print(f"  answers: {', '.join(counts)}")
    return 0
