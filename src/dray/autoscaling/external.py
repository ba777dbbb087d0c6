"""Client for a real provider with Cluster Autoscaler's external gRPC protocol.

The protocol's node templates contain no devices, so these come from the groups file. Left out: prices, GPU labels and
options, which are also in the groups file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from dray.autoscaling.provider import GroupStatus, Instance, InstanceState, ProviderError, ProviderNodeName
from dray.files import read_regular
from dray.rpc import externalgrpc_pb2 as wire
from dray.rpc.services import stub

TIMEOUT = 5.0  # seconds, the default of Cluster Autoscaler
_STATES = {
    wire.InstanceStatus.instanceCreating: InstanceState.CREATING,
    wire.InstanceStatus.instanceDeleting: InstanceState.DELETING,
}


class ExternalProvider:
    """Groups of a provider at an address; an async context manager. Every failure is raised as ProviderError."""

    def __init__(self, address: str, *, credentials: Any = None, timeout: float = TIMEOUT) -> None:
        self._address = address
        self._credentials = credentials
        self._timeout = timeout

    async def __aenter__(self) -> ExternalProvider:
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(self._address)
        else:
            self._channel = grpc.aio.secure_channel(self._address, self._credentials)
        self._stub = stub(self._channel, wire)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def groups(self) -> list[GroupStatus]:
        await self._ask(self._stub.Refresh, wire.RefreshRequest())
        found = await self._ask(self._stub.NodeGroups, wire.NodeGroupsRequest())
        return [await self._status(group) for group in found.nodeGroups]

    async def increase(self, group: str, count: int) -> None:
        request = wire.NodeGroupIncreaseSizeRequest(delta=count, id=group)
        await self._ask(self._stub.NodeGroupIncreaseSize, request)

    async def delete(self, group: str, nodes: Sequence[ProviderNodeName]) -> None:
        named = [wire.ExternalGrpcNode(providerID=node.provider_id, name=node.name) for node in nodes]
        request = wire.NodeGroupDeleteNodesRequest(nodes=named, id=group)
        await self._ask(self._stub.NodeGroupDeleteNodes, request)

    async def _status(self, group: wire.NodeGroup) -> GroupStatus:
        target = await self._ask(self._stub.NodeGroupTargetSize, wire.NodeGroupTargetSizeRequest(id=group.id))
        found = await self._ask(self._stub.NodeGroupNodes, wire.NodeGroupNodesRequest(id=group.id))
        instances = tuple(_instance(one) for one in found.instances)
        return GroupStatus(group.id, group.minSize, group.maxSize, target.targetSize, instances)

    async def _ask(self, method: Any, request: Any) -> Any:
        """Call a gRPC method. Raises ProviderError if the call fails."""
        try:
            return await method(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            raise ProviderError(f"provider {self._address}: {error.code().name}: {error.details()}") from error


def credentials(cacert: Path, cert: Path | None = None, key: Path | None = None) -> Any:
    """Return TLS credentials from the provider's CA certificate, and from a client certificate and key if given."""
    return grpc.ssl_channel_credentials(
        read_regular(cacert), read_regular(key) if key else None, read_regular(cert) if cert else None
    )


def _instance(one: wire.Instance) -> Instance:
    state = _STATES.get(one.status.instanceState, InstanceState.RUNNING)
    info = one.status.errorInfo
    return Instance(one.id, state, ": ".join(filter(None, (info.errorCode, info.errorMessage))))
