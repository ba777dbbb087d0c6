"""The node agent's calls to a driver, without the rest of a node agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio

from dray.api.types.resource import ResourceClaim
from dray.rpc import PLUGIN_PACKAGE, dra_v1_pb2, health_pb2, registration_pb2

_OPTIONS = [
    ("grpc.default_authority", "localhost"),
    # Drivers restart on the same path, so an earlier connection must not be reused.
    ("grpc.use_local_subchannel_pool", 1),
]
VERSIONS = ("v1", "v1beta1")


class DriverCallFailed(Exception):
    """A call to the driver ended with a gRPC error or timed out."""

    def __init__(self, method: str, error: grpc.aio.AioRpcError) -> None:
        self.code: grpc.StatusCode = error.code()
        super().__init__(f"{method}: {self.code.name}: {error.details()}")


class Reference(NamedTuple):
    """Namespace, name and uid of a claim, as the kubelet sends them."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def to(cls, claim: ResourceClaim, uid: str = "") -> Reference:
        return cls(claim.metadata.namespace, claim.metadata.name, uid or claim.metadata.uid)


async def get_info(socket: Path, timeout: float) -> registration_pb2.PluginInfo:
    request = registration_pb2.InfoRequest()
    method = "/pluginregistration.Registration/GetInfo"
    info: registration_pb2.PluginInfo = await _unary(socket, method, request, registration_pb2.PluginInfo, timeout)
    return info


async def notify_registered(socket: Path, timeout: float) -> None:
    request = registration_pb2.RegistrationStatus(plugin_registered=True)
    method = "/pluginregistration.Registration/NotifyRegistrationStatus"
    await _unary(socket, method, request, registration_pb2.RegistrationStatusResponse, timeout)


async def prepare(endpoint: Path, version: str, claims: Sequence[Reference], timeout: float) -> dict[str, Any]:
    """Call NodePrepareResources. Returns the answer for each claim by uid, which has `devices` or an `error`.

    `version` is such as "v1"; `timeout` is in seconds. Raises DriverCallFailed if the call itself fails.
    """
    return await _dra(endpoint, version, "NodePrepareResources", claims, timeout)


async def unprepare(endpoint: Path, version: str, claims: Sequence[Reference], timeout: float) -> dict[str, Any]:
    return await _dra(endpoint, version, "NodeUnprepareResources", claims, timeout)


async def first_health(endpoint: Path, service: str, timeout: float) -> health_pb2.NodeWatchResourcesResponse:
    """Return the first message of a health stream.

    The message is empty if the stream ends without one. Raises DriverCallFailed if the call fails or nothing arrives
    within `timeout` seconds.
    """
    method = f"/{service}/NodeWatchResources"
    async with grpc.aio.insecure_channel(f"unix:{endpoint}", options=_OPTIONS) as channel:
        watch = channel.unary_stream(
            method,
            request_serializer=health_pb2.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=health_pb2.NodeWatchResourcesResponse.FromString,
        )
        try:
            async for response in watch(health_pb2.NodeWatchResourcesRequest(), timeout=timeout):
                first: health_pb2.NodeWatchResourcesResponse = response
                return first
        except grpc.aio.AioRpcError as error:
            raise DriverCallFailed(method, error) from error
    return health_pb2.NodeWatchResourcesResponse()


async def _dra(
    endpoint: Path, version: str, method: str, claims: Sequence[Reference], timeout: float
) -> dict[str, Any]:
    listed = [dra_v1_pb2.Claim(namespace=one.namespace, name=one.name, uid=one.uid) for one in claims]
    request = getattr(dra_v1_pb2, f"{method}Request")(claims=listed)
    path = f"/{PLUGIN_PACKAGE}.{version}.DRAPlugin/{method}"
    answer = await _unary(endpoint, path, request, getattr(dra_v1_pb2, f"{method}Response"), timeout)
    return dict(answer.claims)


async def _unary(socket: Path, method: str, request: Any, answer: Any, timeout: float) -> Any:
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        call = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        try:
            return await call(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise DriverCallFailed(method, error) from error
