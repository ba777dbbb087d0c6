"""Server of Cluster Autoscaler's external gRPC protocol, for any of our providers.

Node templates are sent without devices, which the protocol cannot express. Prices are those of our groups. Pod
prices, GPU labels and group options are not implemented and are answered as the protocol requires.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import grpc.aio

from dray.api.protobuf import encode_message
from dray.api.wire import tree_of
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.autoscaling.provider import (
    GroupStatus,
    Instance,
    InstanceState,
    Provider,
    ProviderError,
    ProviderNodeName,
)
from dray.rpc import externalgrpc_pb2 as wire
from dray.rpc.services import add_service, start_server

T = TypeVar("T")
GrpcContext = Any  # grpc.aio.ServicerContext, which has no types
_STATES = {
    InstanceState.CREATING: wire.InstanceStatus.instanceCreating,
    InstanceState.RUNNING: wire.InstanceStatus.instanceRunning,
    InstanceState.DELETING: wire.InstanceStatus.instanceDeleting,
}
_OTHER_ERROR = 99  # error class other than resource shortage
_HOUR = 3600.0


class ExternalService:
    """gRPC service for a provider and its groups."""

    def __init__(self, provider: Provider, groups: NodeGroups) -> None:
        self._provider = provider
        self._groups = groups

    async def NodeGroups(self, request: wire.NodeGroupsRequest, context: GrpcContext) -> wire.NodeGroupsResponse:
        found = await _done(self._provider.groups(), context)
        return wire.NodeGroupsResponse(nodeGroups=[_group(status) for status in found])

    async def NodeGroupForNode(
        self, request: wire.NodeGroupForNodeRequest, context: GrpcContext
    ) -> wire.NodeGroupForNodeResponse:
        """Return the group of a node, or an empty group if the node is not ours."""
        for status in await _done(self._provider.groups(), context):
            if any(one.id == request.node.providerID for one in status.instances):
                return wire.NodeGroupForNodeResponse(nodeGroup=_group(status))
        return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup())

    async def NodeGroupTargetSize(
        self, request: wire.NodeGroupTargetSizeRequest, context: GrpcContext
    ) -> wire.NodeGroupTargetSizeResponse:
        status = await self._status(request.id, context)
        return wire.NodeGroupTargetSizeResponse(targetSize=status.target)

    async def NodeGroupIncreaseSize(
        self, request: wire.NodeGroupIncreaseSizeRequest, context: GrpcContext
    ) -> wire.NodeGroupIncreaseSizeResponse:
        await _done(self._provider.increase(request.id, request.delta), context)
        return wire.NodeGroupIncreaseSizeResponse()

    async def NodeGroupDeleteNodes(
        self, request: wire.NodeGroupDeleteNodesRequest, context: GrpcContext
    ) -> wire.NodeGroupDeleteNodesResponse:
        nodes = [ProviderNodeName(node.name, node.providerID) for node in request.nodes]
        await _done(self._provider.delete(request.id, nodes), context)
        return wire.NodeGroupDeleteNodesResponse()

    async def NodeGroupDecreaseTargetSize(
        self, request: wire.NodeGroupDecreaseTargetSizeRequest, context: GrpcContext
    ) -> wire.NodeGroupDecreaseTargetSizeResponse:
        """Cancel nodes that are still being created. `delta` is negative, as in Cluster Autoscaler."""
        status = await self._status(request.id, context)
        creating = [one.id for one in status.instances if one.state is InstanceState.CREATING]
        if not 0 < -request.delta <= len(creating):
            text = f"delta {request.delta}: expected a number from {-len(creating)} to -1"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        nodes = [ProviderNodeName("", one) for one in creating[request.delta :]]
        await _done(self._provider.delete(request.id, nodes), context)
        return wire.NodeGroupDecreaseTargetSizeResponse()

    async def NodeGroupNodes(
        self, request: wire.NodeGroupNodesRequest, context: GrpcContext
    ) -> wire.NodeGroupNodesResponse:
        status = await self._status(request.id, context)
        return wire.NodeGroupNodesResponse(instances=[_instance(one) for one in status.instances])

    async def NodeGroupTemplateNodeInfo(
        self, request: wire.NodeGroupTemplateNodeInfoRequest, context: GrpcContext
    ) -> wire.NodeGroupTemplateNodeInfoResponse:
        group = await self._known(request.id, context)
        node = tree_of(group.template.objects(f"{group.name}-template")[0])
        return wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=encode_message(node))

    async def PricingNodePrice(
        self, request: wire.PricingNodePriceRequest, context: GrpcContext
    ) -> wire.PricingNodePriceResponse:
        asked = wire.NodeGroupForNodeRequest(node=request.node)
        found = await self.NodeGroupForNode(asked, context)
        # A template node is not an instance, but has the labels of its group.
        likely = (group.name for group in self._groups.groups if group.is_marked_by(request.node.labels))
        named = found.nodeGroup.id or next(likely, "")
        group = await self._known(named, context)
        seconds = request.endTimestamp.ToNanoseconds() - request.startTimestamp.ToNanoseconds()
        return wire.PricingNodePriceResponse(price=group.price * seconds / 1e9 / _HOUR)

    async def GPULabel(self, request: wire.GPULabelRequest, context: GrpcContext) -> wire.GPULabelResponse:
        return wire.GPULabelResponse()

    async def GetAvailableGPUTypes(
        self, request: wire.GetAvailableGPUTypesRequest, context: GrpcContext
    ) -> wire.GetAvailableGPUTypesResponse:
        return wire.GetAvailableGPUTypesResponse()

    async def Refresh(self, request: wire.RefreshRequest, context: GrpcContext) -> wire.RefreshResponse:
        return wire.RefreshResponse()

    async def Cleanup(self, request: wire.CleanupRequest, context: GrpcContext) -> wire.CleanupResponse:
        return wire.CleanupResponse()

    async def _status(self, name: str, context: GrpcContext) -> GroupStatus:
        """Return the status of a group. Aborts with NOT_FOUND if the provider has no such group.

        `name` is the name of a group. Aborts with FAILED_PRECONDITION if the provider fails.
        """
        for status in await _done(self._provider.groups(), context):
            if status.name == name:
                return status
        await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no group {name}")
        raise AssertionError  # abort always raises

    async def _known(self, name: str, context: GrpcContext) -> NodeGroup:
        """Return the configured group of this name. Aborts with NOT_FOUND if there is none."""
        for group in self._groups.groups:
            if group.name == name:
                return group
        await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no group {name}")
        raise AssertionError  # abort always raises


async def start(provider: Provider, groups: NodeGroups, address: str) -> tuple[Any, int]:
    """Start a server without TLS. Returns the server and its port. Raises OSError if the address is unavailable."""
    server = grpc.aio.server()
    service = ExternalService(provider, groups)
    add_service(server, wire, service)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise OSError(f"{address}: cannot listen there: {error}") from error
    await start_server(server)
    return server, port


async def serve(provider: Provider, groups: NodeGroups, address: str) -> None:
    """Serve until cancelled.

    Raises OSError if the address is unavailable.
    """
    server, _ = await start(provider, groups, address)
    try:
        await server.wait_for_termination()
    finally:
        await server.stop(None)


async def _done(call: Awaitable[T], context: GrpcContext) -> T:
    """Await a provider call. Aborts with FAILED_PRECONDITION if the provider fails."""
    try:
        return await call
    except ProviderError as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        raise AssertionError from error  # abort always raises


def _group(status: GroupStatus) -> wire.NodeGroup:
    debug = f"{status.target} of {status.min} to {status.max} nodes"
    return wire.NodeGroup(id=status.name, minSize=status.min, maxSize=status.max, debug=debug)


def _instance(one: Instance) -> wire.Instance:
    status = wire.InstanceStatus(instanceState=_STATES[one.state])
    if one.error:
        info = wire.InstanceErrorInfo(errorCode="failed", errorMessage=one.error, instanceErrorClass=_OTHER_ERROR)
        status.errorInfo.CopyFrom(info)
    return wire.Instance(id=one.id, status=status)
