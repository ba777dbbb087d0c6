"""`dray status`: whether a cluster runs, what it runs, and whether it answers."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from dray.cli import Subparsers, _clusters, fail
from dray.cli._banner import counted

if TYPE_CHECKING:
    from dray.api.types.coordination import Lease

_ANSWER_SECONDS = 5.0


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("status", help="tell whether a cluster runs; exit status 3 when it does not")
    _clusters.add_name(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        cluster = _clusters.meant(args)
    except _clusters.ClusterError as error:
        return fail("status", error)
    record = cluster.record()
    if record is None:
        print(f"cluster {cluster.name} does not run; `dray up{cluster.option}` starts it again in {cluster.directory}")
        return 3
    print(f"cluster {cluster.name} runs at {record.url} since {record.started} (process {record.pid})")
    print(*(f"  {line}" for line in record.runs), sep="\n")
    counts, leaders = asyncio.run(_counts(cluster))
    print(*(f"  {line}" for line in [*leaders, counts]), sep="\n")
    return 0 if counts.startswith("answers") else 1


async def _counts(cluster: _clusters.ClusterDirectory) -> tuple[str, list[str]]:
    """How many nodes, pods and claims there are, as the cluster itself says, and which processes lead."""
    from dray.api.errors import ApiError
    from dray.api.types.coordination import Lease
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import ResourceClaim
    from dray.client.config import ConfigError, load
    from dray.client.http import Http

    try:
        async with asyncio.timeout(_ANSWER_SECONDS), Http(load(str(cluster.directory / "kubeconfig"))) as client:
            nodes = len((await client.list(Node)).items)
            pods = len((await client.list(Pod)).items)
            claims = len((await client.list(ResourceClaim)).items)
            leaders = [_leader(lease) for lease in (await client.list(Lease, "kube-system")).items]
    except (ApiError, ConfigError, TimeoutError, OSError) as error:
        return f"does not answer: {error or type(error).__name__}", []
    return f"answers: {counted(nodes, 'node')}, {counted(pods, 'pod')}, {counted(claims, 'claim')}", leaders


def _leader(lease: Lease) -> str:
    """Who holds a lease for leader election. Leases of nodes are in another namespace."""
    return f"{lease.metadata.name}: {lease.spec.holderIdentity or 'nobody'} leads, renewed at {lease.spec.renewTime}"
