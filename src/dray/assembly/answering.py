"""Asks a cluster of the user whether it answers. Left out: whether its process runs (`clusters`)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.assembly.clusters import ClusterDirectory
from dray.client.config import load
from dray.client.http import Http

_ANSWER_SECONDS = 5.0


class ClusterAnswer(NamedTuple):
    """How many nodes, pods and claims there are, and the leases of processes that lead."""

    nodes: int
    pods: int
    claims: int
    leases: tuple[Lease, ...]


async def answer_of(cluster: ClusterDirectory) -> ClusterAnswer:
    """Ask a cluster of the user. Raises ApiError, ConfigError, TimeoutError and OSError."""
    async with asyncio.timeout(_ANSWER_SECONDS), Http(load(str(cluster.directory / "kubeconfig"))) as client:
        nodes, pods, claims = [len((await client.list(type_)).items) for type_ in (Node, Pod, ResourceClaim)]
        leases = (await client.list(Lease, "kube-system")).items  # those of nodes are in another namespace
        return ClusterAnswer(nodes, pods, claims, leases)
