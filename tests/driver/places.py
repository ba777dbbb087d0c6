"""Where things are in a test, what a scheduler would have written, and a kubelet's part of the conversation."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio

from dray.api.types.resource import ResourceClaim
from dray.api.wire import Tree
from dray.client import Client
from dray.rpc import dra_v1_pb2, registration_pb2
from tests.waiting import SECONDS

OPTIONS = [("grpc.default_authority", "localhost")]


@dataclass(frozen=True)
class Places:
    root: Path

    @property
    def kubelet(self) -> Path:
        return self.root / "k"

    @property
    def cdi(self) -> Path:
        return self.root / "cdi"

    def registration(self, driver: str, instance: str = "") -> Path:
        return self.kubelet / "plugins_registry" / f"{driver}{instance and '-' + instance}-reg.sock"

    def specs(self) -> list[str]:
        return sorted(path.name for path in self.cdi.glob("*")) if self.cdi.exists() else []


class Kubelet:
    """The other end of a driver's sockets; knows the methods by their full names only, as a Go kubelet does."""

    def __init__(self, registration: Path) -> None:
        self._registration = registration

    async def info(self) -> registration_pb2.PluginInfo:
        request = registration_pb2.InfoRequest()
        return await self._call(
            self._registration, "/pluginregistration.Registration/GetInfo", request, registration_pb2.PluginInfo
        )

    async def notify(self, registered: bool = True, error: str = "") -> None:
        await self._call(
            self._registration,
            "/pluginregistration.Registration/NotifyRegistrationStatus",
            registration_pb2.RegistrationStatus(plugin_registered=registered, error=error),
            registration_pb2.RegistrationStatusResponse,
        )

    async def prepare(self, *claims: ResourceClaim | Tree, version: str = "v1", timeout: float = SECONDS) -> Any:
        return (await self._dra("NodePrepareResources", claims, version, timeout)).claims

    async def unprepare(self, *claims: ResourceClaim | Tree, version: str = "v1", timeout: float = SECONDS) -> Any:
        return (await self._dra("NodeUnprepareResources", claims, version, timeout)).claims

    async def _dra(self, method: str, claims: Sequence[ResourceClaim | Tree], version: str, timeout: float) -> Any:
        messages: Any = dra_v1_pb2  # as those of v1beta1
        named = [_named(claim) for claim in claims]
        request = getattr(messages, f"{method}Request")(claims=[messages.Claim(**one) for one in named])
        path = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{method}"
        endpoint = Path((await self.info()).endpoint)
        return await self._call(endpoint, path, request, getattr(messages, f"{method}Response"), timeout)

    async def _call(self, socket: Path, path: str, request: Any, answer: Any, timeout: float = SECONDS) -> Any:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
            method = channel.unary_unary(
                path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
            )
            return await method(request, timeout=timeout)


def _named(claim: ResourceClaim | Tree) -> Tree:
    if isinstance(claim, dict):
        return claim
    return {"namespace": claim.metadata.namespace, "name": claim.metadata.name, "uid": claim.metadata.uid}


async def allocated_claim(
    client: Client,
    name: str,
    devices: Sequence[str],
    *,
    driver: str = "gpu.example.com",
    pool: str = "node-1",
    config: Sequence[Tree] = (),
    requests: Sequence[str] = (),
    others: Sequence[Tree] = (),
) -> ResourceClaim:
    """A claim with the allocation that a scheduler would write: one request a device, unless they are named."""
    names = [*requests] or [f"r{index}" for index in range(len(devices))]
    spec = [
        {"name": one, "exactly": {"deviceClassName": driver}}
        for one in dict.fromkeys(one.partition("/")[0] for one in names)
    ]
    spec += [
        {"name": entry["request"], "exactly": {"deviceClassName": entry["driver"]}}
        for entry in {other["request"]: other for other in others}.values()
    ]
    for alternative in (one for one in names if "/" in one):
        main, _, sub = alternative.partition("/")
        index = next(i for i, one in enumerate(spec) if one["name"] == main)
        spec[index] = {"name": main, "firstAvailable": [{"name": sub, "deviceClassName": driver}]}
    await client.create(
        ResourceClaim,
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": spec}}},
    )
    results = [
        {"request": request, "driver": driver, "pool": pool, "device": device}
        for request, device in zip(names, devices, strict=True)
    ]
    status: Tree = {"allocation": {"devices": {"results": [*results, *others], "config": [*config]}}}
    status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": str(uuid.uuid4())}]
    return await client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


@asynccontextmanager
async def background(work: Awaitable[None]) -> AsyncIterator[asyncio.Task[None]]:
    """Something that runs beside the test and ends with it."""
    task = asyncio.ensure_future(work)
    try:
        yield task  # type: ignore[misc]  # a Future of a coroutine is a Task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
