"""Pods with claims that come and go, what was acknowledged about them, and what the watch stream of claims says.

Each write is tried until its outcome is known. Left out: faults (`cluster`), and registers (`histories`).
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial

from dray.api.errors import AlreadyExists, ApiError, Expired, NotFound
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.client import Client
from dray.sim.hardware import CLASS
from tests.e2e.audit import Device, devices_of
from tests.e2e.objects import NAMESPACE, pod, template
from tests.waiting import eventually

LIFE = 5.0, 15.0  # seconds until a pod is deleted


class Workload:
    """Creates pods at a rate, deletes each of them later, and keeps the books."""

    def __init__(self, client: Client, devices: int, dice: random.Random) -> None:
        self.created: dict[str, str] = {}  # uid by name, of each pod whose creation was acknowledged
        self.deleted: set[str] = set()
        self._client = client
        self._devices = devices
        self._dice = dice

    async def prepare(self, nodes: int) -> None:
        await self._insist(lambda: self._client.create(ResourceClaimTemplate, template("one")))

        async def published() -> bool:
            try:
                classes = await self._client.list(DeviceClass)
                slices = await self._client.list(ResourceSlice)
            except ApiError:
                return False
            return any(one.metadata.name == CLASS for one in classes.items) and len(slices.items) >= nodes

        await eventually(published)

    async def run(self, rate: float, is_over: asyncio.Event) -> None:
        """Create pods until it is over. Returns when all outcomes are known; pods whose time has not come stay."""
        number = 0
        loop = asyncio.get_running_loop()
        begun = loop.time()
        creations: set[asyncio.Task[None]] = set()
        while not is_over.is_set():
            creations.add(asyncio.create_task(self._one(f"p{number}", is_over)))
            number += 1
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        await asyncio.gather(*creations)

    async def _one(self, name: str, is_over: asyncio.Event) -> None:
        await self._insist(partial(self._create, name))
        try:
            await asyncio.wait_for(is_over.wait(), self._dice.uniform(*LIFE))
        except TimeoutError:
            await self.delete(name)

    async def _create(self, name: str) -> None:
        """Create a pod, or find out that an attempt without an answer has created it."""
        try:
            made = await self._client.create(Pod, pod(name, templates=["one"]))
        except AlreadyExists:
            made = await self._client.get(Pod, name, NAMESPACE)
        self.created[name] = made.metadata.uid

    async def delete(self, name: str) -> None:
        await self._insist(lambda: self._client.delete(Pod, name, NAMESPACE))
        self.deleted.add(name)

    async def delete_all(self) -> None:
        await asyncio.gather(*map(self.delete, self.created.keys() - self.deleted))

    async def _insist(self, action: Callable[[], Awaitable[object]]) -> None:
        """Do it until it is known to be done."""
        while True:
            try:
                await action()
            except (AlreadyExists, NotFound):
                return
            except ApiError:
                await asyncio.sleep(0.2)
            else:
                return

    async def wrong(self) -> list[str]:
        """What contradicts the books: pods that are missing, came back, or do not run although devices are free."""
        pods = {one.metadata.name: one for one in (await self._client.list(Pod, NAMESPACE)).items}
        kept = self.created.keys() - self.deleted
        found = [f"pod {name} is missing" for name in kept - pods.keys()]
        found += [f"pod {name} is still there" for name in pods.keys() - kept]
        running = sum(one.status.phase == "Running" for one in pods.values())
        for name in kept & pods.keys():
            if pods[name].metadata.uid != self.created[name]:
                found.append(f"pod {name} is another one")
            elif pods[name].status.phase != "Running" and running < self._devices:
                said = [one.message for one in pods[name].status.conditions if one.type == "PodScheduled"]
                found.append(f"pod {name} is {pods[name].status.phase} on {pods[name].spec.nodeName!r}: {said}")
        return found

    async def orphans(self, known: set[str]) -> list[str]:
        """Pods and claims that are still there after all pods were deleted, except for `known` claims."""
        found = [f"pod {one.metadata.name}" for one in (await self._client.list(Pod, NAMESPACE)).items]
        claims = (await self._client.list(ResourceClaim, NAMESPACE)).items
        return found + [f"claim {one.metadata.name}" for one in claims if one.metadata.name not in known]


class ClaimWatch:
    """Follows one watch of claims through all servers, and notes what must not happen."""

    def __init__(self, client: Client) -> None:
        self.findings: list[str] = []
        self.events = 0
        self.streams = 0
        self.claims: dict[str, ResourceClaim] = {}
        self._client = client
        self._holders: dict[Device, set[str]] = defaultdict(set)
        self._version = 0

    async def run(self) -> None:
        """Follow the watch. A watch that ends or breaks goes on after the last event, at whatever server."""
        while not self._version:
            try:
                found = await self._client.list(ResourceClaim, NAMESPACE)
                self._version = int(found.resource_version)
            except ApiError:
                await asyncio.sleep(0.1)
        for claim in found.items:
            self._note("ADDED", claim)
        while True:
            self.streams += 1
            watch = self._client.watch(ResourceClaim, NAMESPACE, resource_version=str(self._version))
            try:
                async with aclosing(watch):
                    async for batch in watch:
                        for event in batch:
                            self._take(event.type, event.object, int(event.resource_version))
            except Expired as error:
                self.findings.append(f"the watch could not go on after {self._version}: {error}")
                return
            except ApiError:
                pass
            await asyncio.sleep(0.1)

    def _take(self, type_: str, claim: ResourceClaim, version: int) -> None:
        if version < self._version or (version == self._version and type_ != "BOOKMARK"):
            self.findings.append(f"{type_} at {version} came after {self._version}")
        self._version = max(version, self._version)
        if type_ != "BOOKMARK":
            self.events += 1
            self._note(type_, claim)

    def _note(self, type_: str, claim: ResourceClaim) -> None:
        name = claim.metadata.name
        before = self.claims.pop(name, None)
        if (type_ == "ADDED") == (before is not None):
            self.findings.append(f"{type_} of claim {name}, which was {'there' if before else 'not there'}")
        for device in devices_of(before) if before is not None else ():
            self._holders[device].discard(before.metadata.uid if before is not None else "")
        if type_ == "DELETED":
            return
        self.claims[name] = claim
        for device in devices_of(claim):
            self._holders[device].add(claim.metadata.uid)
            if len(self._holders[device]) > 1:
                self.findings.append(
                    f"device {'/'.join(device)} is held by {len(self._holders[device])} claims, last {name}"
                )

    async def missed(self) -> list[str]:
        """Claims of which the watch says something else than a list."""
        found = {one.metadata.name: one for one in (await self._client.list(ResourceClaim, NAMESPACE)).items}
        names = found.keys() | self.claims.keys()
        return [f"the watch missed a change of {name}" for name in names if found.get(name) != self.claims.get(name)]


async def settled(look: Callable[[], Awaitable[list[str]]], seconds: float) -> list[str]:
    """Wait until looking finds nothing wrong; returns what was found last."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            found = await look()
        except ApiError as error:
            found = [str(error)]
        if not found or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.5)
