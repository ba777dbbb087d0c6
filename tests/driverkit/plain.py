"""A driver that uses nothing of dray.driver, as one in another language would not, and that can be broken on purpose."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec

from dray.api.errors import ApiError, NotFound
from dray.api.types.core import Node
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from dray.driverkit import Places
from dray.rpc import dra_v1_pb2, registration_pb2
from dray.rpc.services import add_service

NAME = "plain.example.com"
KIND = "plain.example.com/device"
SERVICES = ("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin")


class PlainDriver:
    """A subject of the kit, in the test's own process. `fault` names what it does wrong; empty is a good driver."""

    title = "plain driver"
    restartable = True
    changeable = True
    alive = True

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._count = 6
        self._prepared: set[str] = set()
        self._lock = asyncio.Lock()
        self._servers: list[grpc.aio.Server] = []
        self._publishing: asyncio.Task[None] | None = None
        self._status: int | None = None

    # -- what the kit asks of a subject

    async def start(self, places: Places) -> None:
        self._cdi = places.cdi_dir
        self._node = places.node
        self._registration = places.registry / f"{NAME}-reg.sock"
        self._endpoint = places.kubelet_dir / "plugins" / NAME / "dra.sock"
        self._status = 1 if len(str(self._registration)) > 107 else None
        if self._status is not None:
            return
        self._client = Http(load(str(places.kubeconfig)))
        self._endpoint.parent.mkdir(exist_ok=True)
        dra, registration = grpc.aio.server(), grpc.aio.server()
        add_service(dra, dra_v1_pb2, _Service(self), *SERVICES)
        add_service(registration, registration_pb2, self)
        for server, path in ((dra, self._endpoint), (registration, self._registration)):
            path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            self._servers.append(server)
        self._publishing = asyncio.create_task(self._publish())

    async def stop(self, *, kill: bool = False) -> int | None:
        if self._publishing is None:
            return self._status
        self._publishing.cancel()
        await asyncio.gather(self._publishing, return_exceptions=True)
        self._publishing = None
        for server in self._servers:
            await server.stop(0)
        self._servers.clear()
        await self._client.aclose()
        if not kill and self._fault != "socket left behind":
            for path in (self._registration, self._endpoint):
                path.unlink(missing_ok=True)
        elif not kill:
            self._registration.touch()
        return 0

    async def ended(self) -> int:
        assert self._status is not None, "it runs"
        return self._status

    async def change(self) -> None:
        self._count -= 2

    def output(self) -> str:
        return ""

    # -- registration

    async def GetInfo(self, request: Any, context: Any) -> registration_pb2.PluginInfo:
        versions = ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=NAME, endpoint=str(self._endpoint), supported_versions=versions
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> registration_pb2.RegistrationStatusResponse:
        return registration_pb2.RegistrationStatusResponse()

    # -- slices: two for one pool, looked after by polling

    async def _publish(self) -> None:
        node = await self._client.get(Node, self._node)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}
        while True:
            with suppress(ApiError):
                await self._sync(owner)
            await asyncio.sleep(0.05)

    async def _sync(self, owner: dict[str, str]) -> None:
        there = {one.metadata.name: one for one in (await self._client.list(ResourceSlice)).items}
        wanted = {f"plain-{half}": self._devices(half) for half in range(2)}
        newest = max((one.spec.pool.generation for one in there.values()), default=0)
        if there.keys() == wanted.keys() and all(
            [device.name for device in there[name].spec.devices] == devices
            and there[name].spec.pool.generation == newest
            for name, devices in wanted.items()
        ):
            return
        keep = self._fault == "generation not raised" and there
        for name in there.keys() - wanted.keys():
            await self._client.delete(ResourceSlice, name)
        for name, devices in wanted.items():
            await self._write(name, devices, newest if keep else newest + 1, owner, there.get(name))

    def _devices(self, half: int) -> list[str]:
        suffix = "x" * 70 if self._fault == "names over the limits" else ""
        names = [f"d{number}{suffix}" for number in range(self._count)]
        middle = len(names) // 2
        return names[middle:] if half else names[:middle]

    async def _write(
        self, name: str, devices: list[str], generation: int, owner: dict[str, str], old: ResourceSlice | None
    ) -> None:
        count = 3 if self._fault == "slice count wrong" else 2
        spec = {
            "driver": NAME,
            "nodeName": self._node,
            "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": device} for device in devices],
        }
        metadata = msgspec.to_builtins(old.metadata) if old else {"name": name}
        tree = {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec}
        if old:
            await self._client.update(ResourceSlice, tree)
        else:
            await self._client.create(ResourceSlice, tree)

    # -- claims

    async def prepare(self, claim: Any) -> list[dict[str, Any]]:
        """The devices of a claim; RuntimeError is an error for the claim."""
        if self._fault == "one at a time":
            async with self._lock:
                return await self._prepare(claim)
        return await self._prepare(claim)

    async def _prepare(self, claim: Any) -> list[dict[str, Any]]:
        if self._fault == "prepare not idempotent" and claim.uid in self._prepared:
            raise RuntimeError("already prepared")
        try:
            found = await self._client.get(ResourceClaim, claim.name, claim.namespace)
        except NotFound as error:
            if self._fault == "unknown claim prepared":
                return []
            raise RuntimeError("no such claim") from error
        if found.metadata.uid != claim.uid and self._fault != "uid not checked":
            raise RuntimeError("another claim")
        if found.status.allocation is None:
            raise RuntimeError("not allocated")
        results = [one for one in found.status.allocation.devices.results if one.driver == NAME]
        there = self._devices(0) + self._devices(1)
        if any(one.device not in there for one in results):
            raise RuntimeError("no such device")
        self._prepared.add(claim.uid)
        return self._answers(claim.uid, results)

    def _answers(self, uid: str, results: list[Any]) -> list[dict[str, Any]]:
        edits = [{"name": f"{uid}-{one.device}", "containerEdits": {"env": ["A=b"]}} for one in results]
        if self._fault != "CDI id without spec":
            self._file(uid).write_text(json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": edits}))
        return [
            {
                "request_names": [one.request],
                "pool_name": "elsewhere" if self._fault == "wrong pool" else one.pool,
                "device_name": "other" if self._fault == "wrong device" else one.device,
                "cdi_device_ids": [f"{KIND}={uid}-{one.device}"],
            }
            for one in results
        ]

    async def unprepare(self, claim: Any) -> None:
        if self._fault == "unprepare not idempotent" and claim.uid not in self._prepared:
            raise RuntimeError("not prepared")
        self._prepared.discard(claim.uid)
        self._file(claim.uid).unlink(missing_ok=True)

    def answered(self, claims: Any) -> Any:
        return claims[:1] if self._fault == "claim missing" else claims

    def _file(self, uid: str) -> Path:
        return self._cdi / f"plain-{uid}.json"


class _Service:
    """DRA in all its versions."""

    def __init__(self, driver: PlainDriver) -> None:
        self._driver = driver

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answers = {}
        for claim in self._driver.answered(request.claims):
            try:
                devices = [dra_v1_pb2.Device(**one) for one in await self._driver.prepare(claim)]
                answers[claim.uid] = dra_v1_pb2.NodePrepareResourceResponse(devices=devices)
            except RuntimeError as error:
                answers[claim.uid] = dra_v1_pb2.NodePrepareResourceResponse(error=str(error))
        return dra_v1_pb2.NodePrepareResourcesResponse(claims=answers)

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        answers = {}
        for claim in self._driver.answered(request.claims):
            try:
                await self._driver.unprepare(claim)
                answers[claim.uid] = dra_v1_pb2.NodeUnprepareResourceResponse()
            except RuntimeError as error:
                answers[claim.uid] = dra_v1_pb2.NodeUnprepareResourceResponse(error=str(error))
        return dra_v1_pb2.NodeUnprepareResourcesResponse(claims=answers)
