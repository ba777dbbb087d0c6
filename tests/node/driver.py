"""A driver on real sockets, small and obedient: it does what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from dray.rpc import dra_v1_pb2, health_pb2, registration_pb2
from dray.rpc.services import add_service

NAME = "gpu.test.example"
VENDOR = "test.example/gpu"
SERVICES = ("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin")


class Driver:
    """Registers, prepares claims with one device each unless `devices` says otherwise, and remembers every call.

    `fail` is asked before each prepare and unprepare with method and uid; what it returns is the claim's error. An
    exception that it raises fails the call as a whole.
    """

    def __init__(
        self,
        root: Path,
        name: str = NAME,
        *,
        instance: str = "",
        versions: tuple[str, ...] = ("v1.DRAPlugin", "v1beta1.DRAPlugin"),
        kind: str = "DRAPlugin",
        health: bool = False,
    ) -> None:
        self.name = name
        self.root = root
        self.kind = kind
        self.versions = (*versions, "v1.DRAResourceHealth") if health else versions
        self.registration = root / "plugins_registry" / f"{name}{instance and '-' + instance}-reg.sock"
        self.endpoint = root / "plugins" / name / f"dra{instance and '-' + instance}.sock"
        self.calls: list[tuple[str, list[str]]] = []
        self.prepared: set[str] = set()
        self.statuses: list[registration_pb2.RegistrationStatus] = []
        self.registered = asyncio.Event()
        self.fail: Callable[[str, str], str] = lambda method, uid: ""
        self.devices: Callable[[str], list[dict[str, Any]]] = lambda uid: [
            {
                "request_names": ["gpu"],
                "pool_name": "pool",
                "device_name": "gpu-0",
                "cdi_device_ids": [self.cdi_id(uid)],
            }
        ]
        self.hang = False  # do not answer
        self.deaf = False  # fail when told of the registration
        self.edits: dict[str, Any] = {}  # for containers, beside the environment
        self.omit: set[str] = set()  # claims to leave out of answers
        self.health: asyncio.Queue[list[health_pb2.DeviceHealth]] = asyncio.Queue()
        self._servers: list[grpc.aio.Server] = []

    def cdi_id(self, uid: str) -> str:
        return f"{VENDOR}={uid}"

    @property
    def cdi_files(self) -> list[Path]:
        return sorted((self.root / "cdi").glob(f"{self.name}-*.json"))

    def called(self, method: str) -> list[list[str]]:
        return [uids for name, uids in self.calls if name == method]

    async def start(self) -> Driver:
        self.endpoint.parent.mkdir(parents=True, exist_ok=True)
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        for socket in (self.endpoint, self.registration):
            socket.unlink(missing_ok=True)
        plugin = grpc.aio.server()
        add_service(plugin, dra_v1_pb2, _Plugin(self), *SERVICES)
        add_service(plugin, health_pb2, self)
        plugin.add_insecure_port(f"unix:{self.endpoint}")
        await plugin.start()
        registrar = grpc.aio.server()
        add_service(registrar, registration_pb2, _Registration(self))
        registrar.add_insecure_port(f"unix:{self.registration}")
        await registrar.start()
        self._servers = [registrar, plugin]
        return self

    async def stop(self, *, take_away: bool = True) -> None:
        """End; without taking the sockets away, as if killed."""
        if take_away:
            self.registration.unlink(missing_ok=True)
        for server in self._servers:
            await server.stop(0)
        self._servers = []
        if not take_away:  # gRPC removes sockets of its own accord, a killed process does not
            import socket

            with suppress(OSError):
                left = socket.socket(socket.AF_UNIX)
                left.bind(str(self.registration))
                left.close()

    def write_spec(self, uid: str) -> None:
        directory = self.root / "cdi"
        directory.mkdir(parents=True, exist_ok=True)
        edits = {"env": [f"GPU={uid}"], **self.edits}
        spec = {"cdiVersion": "0.6.0", "kind": VENDOR, "devices": [{"name": uid, "containerEdits": edits}]}
        temporary = directory / f".{uid}"
        temporary.write_text(json.dumps(spec))
        temporary.replace(directory / f"{self.name}-{uid}.json")

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while True:
            yield health_pb2.NodeWatchResourcesResponse(devices=await self.health.get())


class _Plugin:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        driver = self._driver
        answer = dra_v1_pb2.NodePrepareResourcesResponse()
        for uid in await self._called("prepare", request, context, answer):
            driver.prepared.add(uid)
            driver.write_spec(uid)
            answer.claims[uid].devices.extend(dra_v1_pb2.Device(**device) for device in driver.devices(uid))
        return answer

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        driver = self._driver
        answer = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for uid in await self._called("unprepare", request, context, answer):
            driver.prepared.discard(uid)
            (driver.root / "cdi" / f"{driver.name}-{uid}.json").unlink(missing_ok=True)
        return answer

    async def _called(self, what: str, request: Any, context: Any, answer: Any) -> list[str]:
        """Fail as the test wants it; the claims for which the call is to succeed."""
        driver = self._driver
        driver.calls.append((what, [claim.uid for claim in request.claims]))
        if driver.hang and what == "prepare":
            await asyncio.sleep(60)
        good = []
        for claim in request.claims:
            try:
                error = driver.fail(what, claim.uid)
            except LookupError as problem:
                await context.abort(grpc.StatusCode.NOT_FOUND, str(problem))
            if claim.uid in driver.omit:
                continue
            answer.claims[claim.uid].error = error
            if not error:
                good.append(claim.uid)
        return good


class _Registration:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: Any) -> registration_pb2.PluginInfo:
        driver = self._driver
        return registration_pb2.PluginInfo(
            type=driver.kind, name=driver.name, endpoint=str(driver.endpoint), supported_versions=driver.versions
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self._driver.statuses.append(request)
        if self._driver.deaf:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "deaf")
        if request.plugin_registered:
            self._driver.registered.set()
        return registration_pb2.RegistrationStatusResponse()
