"""Ask a running cluster of the user for its state. `clusters` checks whether its process runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import msgspec

from dray.api.errors import ApiError
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.assembly.clusters import ClusterDirectory
from dray.assembly.dashboard import PREFIX
from dray.client.config import load
from dray.client.http import Http

_ANSWER_SECONDS = 5.0


class ClusterAnswer(NamedTuple):
    """Number of nodes, pods and claims, leases of leading processes, and a one-time URL of the dashboard or ""."""

    nodes: int
    pods: int
    claims: int
    leases: tuple[Lease, ...]
    dashboard: str


async def answer_of(cluster: ClusterDirectory) -> ClusterAnswer:
    """Return the state of a user's cluster. Raises ApiError, ConfigError, TimeoutError and OSError."""
    async with asyncio.timeout(_ANSWER_SECONDS), Http(load(str(cluster.directory / "kubeconfig"))) as client:
        nodes, pods, claims = [len((await client.list(type_)).items) for type_ in (Node, Pod, ResourceClaim)]
        leases = (await client.list(Lease, "kube-system")).items  # node leases are in another namespace
        return ClusterAnswer(nodes, pods, claims, leases, await _dashboard(client))


async def _dashboard(client: Http) -> str:
    """Return a new URL of the dashboard, valid for one browser, or "" if the server has no dashboard."""
    with suppress(ApiError):
        code = msgspec.json.decode(await client.read(f"{PREFIX}/api/code"))["code"]
        return f"{client.config.server}{PREFIX}/#code={code}"
    return ""
