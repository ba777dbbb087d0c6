"""The gRPC services of a driver: registration, DRA in versions v1 and v1beta1, health.

The versions of DRA differ only in their names, and so do those of the health stream, so one implementation serves all
versions. Left out: what the calls do (`preparation`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias

import grpc.aio

from dray.driver.claims import ClaimReference
from dray.driver.contract import DeviceHealth, Driver, HealthReporter
from dray.driver.preparation import ClaimNotFound, Preparation
from dray.driver.prepared import PreparedDeviceRecord
from dray.driver.sockets import Sockets, SocketServer
from dray.rpc import HEALTH_SERVICES, PLUGIN_PACKAGE, PLUGIN_SERVICES, dra_v1_pb2, health_pb2, registration_pb2
from dray.rpc.services import add_service

log = logging.getLogger(__name__)

PLUGIN_TYPE = "DRAPlugin"
_GRACE_SECONDS = 5.0
# A node agent treats a device's health as unknown after 30 seconds without a report.
_HEALTH_SECONDS = 10.0
_HEALTH = {True: health_pb2.HEALTHY, False: health_pb2.UNHEALTHY, None: health_pb2.UNKNOWN}

GrpcContext: TypeAlias = Any  # grpc.aio.ServicerContext; grpc has no type hints


class DriverPlugin:
    """The gRPC servers of one instance of a driver. The DRA service starts before the registration that announces it."""

    def __init__(
        self, driver: Driver, preparation: Preparation, sockets: Sockets, health_seconds: float = _HEALTH_SECONDS
    ) -> None:
        self._driver = driver
        self._preparation = preparation
        self._sockets = sockets
        self._health = _Health(driver, health_seconds) if isinstance(driver, HealthReporter) else None
        self._plugin = SocketServer(sockets.plugin, self._add_plugin)
        self._registration = SocketServer(
            sockets.registration, lambda server: add_service(server, registration_pb2, self)
        )
        self.registered: bool | None = None  # last answer of the node agent, or None

    async def start(self) -> None:
        await self._plugin.start()
        try:
            await self._registration.start()
        except BaseException:
            await self._plugin.stop(0)
            raise

    async def stop(self) -> None:
        """Close the registration socket, so that no new calls come, then finish running calls and stop."""
        if self._health is not None:
            self._health.close()
        await self._registration.stop(0)
        await self._plugin.stop(_GRACE_SECONDS)

    def _add_plugin(self, server: grpc.aio.Server) -> None:
        versions = (f"{PLUGIN_PACKAGE}.{service}" for service in PLUGIN_SERVICES)
        add_service(server, dra_v1_pb2, _Dra(self._preparation), *versions)
        if self._health is not None:
            add_service(server, health_pb2, self._health, *HEALTH_SERVICES)

    async def GetInfo(self, request: registration_pb2.InfoRequest, context: GrpcContext) -> registration_pb2.PluginInfo:
        services = PLUGIN_SERVICES + (HEALTH_SERVICES if self._health is not None else ())
        return registration_pb2.PluginInfo(
            type=PLUGIN_TYPE,
            name=self._driver.name,
            endpoint=str(self._sockets.plugin),
            supported_versions=services,
        )

    async def NotifyRegistrationStatus(
        self, request: registration_pb2.RegistrationStatus, context: GrpcContext
    ) -> registration_pb2.RegistrationStatusResponse:
        self.registered = request.plugin_registered
        if request.plugin_registered:
            log.info("driver %s is registered with the node agent", self._driver.name)
        else:
            log.error("the node agent refused driver %s: %s", self._driver.name, request.error)
        return registration_pb2.RegistrationStatusResponse()


class _Dra:
    """Implementation of NodePrepareResources and NodeUnprepareResources."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation

    async def NodePrepareResources(
        self, request: dra_v1_pb2.NodePrepareResourcesRequest, context: GrpcContext
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        outcomes = await self._preparation.prepare(_references(request))
        unknown = [str(outcome) for outcome in outcomes.values() if isinstance(outcome, ClaimNotFound)]
        if unknown and len(unknown) == len(outcomes):
            await context.abort(grpc.StatusCode.NOT_FOUND, "; ".join(unknown))
        respond = dra_v1_pb2.NodePrepareResourceResponse
        return dra_v1_pb2.NodePrepareResourcesResponse(
            claims={
                uid: respond(error=str(outcome))
                if isinstance(outcome, Exception)
                else respond(devices=[_device(answer) for answer in outcome])
                for uid, outcome in outcomes.items()
            }
        )

    async def NodeUnprepareResources(
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest, context: GrpcContext
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        outcomes = await self._preparation.unprepare(_references(request))
        respond = dra_v1_pb2.NodeUnprepareResourceResponse
        return dra_v1_pb2.NodeUnprepareResourcesResponse(
            claims={uid: respond(error="" if outcome is None else str(outcome)) for uid, outcome in outcomes.items()}
        )


class _Health:
    """Streams the health of all devices to clients at regular intervals."""

    def __init__(self, driver: HealthReporter, seconds: float) -> None:
        self._driver = driver
        self._seconds = seconds
        self._closed = asyncio.Event()

    async def NodeWatchResources(
        self, request: health_pb2.NodeWatchResourcesRequest, context: GrpcContext
    ) -> AsyncIterator[health_pb2.NodeWatchResourcesResponse]:
        while not self._closed.is_set():
            try:
                yield _health_response(await self._driver.health())
            except Exception as error:
                log.exception("reading the health of devices failed")
                await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
            try:
                await asyncio.wait_for(self._closed.wait(), self._seconds)
            except TimeoutError:
                continue

    def close(self) -> None:
        self._closed.set()


def _device(answer: PreparedDeviceRecord) -> dra_v1_pb2.Device:
    return dra_v1_pb2.Device(
        request_names=[answer.request],
        pool_name=answer.pool,
        device_name=answer.device,
        cdi_device_ids=answer.cdi_ids,
        **({"share_id": answer.share_id} if answer.share_id else {}),
    )


def _references(request: Any) -> list[ClaimReference]:
    return [ClaimReference(claim.namespace, claim.name, claim.uid) for claim in request.claims]


def _health_response(devices: Iterable[DeviceHealth]) -> health_pb2.NodeWatchResourcesResponse:
    now = int(time.time())
    return health_pb2.NodeWatchResourcesResponse(
        devices=[
            health_pb2.DeviceHealth(
                device=health_pb2.DeviceIdentifier(pool_name=one.pool, device_name=one.device),
                health=_HEALTH[one.healthy],
                last_updated_time=now,
                message=one.message,
            )
            for one in devices
        ]
    )
