"""What every check works with: the cluster, the driver and its sockets, and claims made as a scheduler makes them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocator import Allocated, allocate
from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.cdi import CdiError
from dray.api.errors import NotFound
from dray.api.pools import newest, problem_of
from dray.api.reasons import wording
from dray.api.reasons.devices import PoolCode, PoolProblem
from dray.api.types.core import Node
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceSlice
from dray.api.wire import Tree
from dray.driverkit import kubelet
from dray.driverkit.kubelet import DriverCallFailed, Reference
from dray.node.cdi import Specs
from dray.rpc import registration_pb2
from dray.sim.demands import claim_for_devices

if TYPE_CHECKING:
    from dray.driverkit.cluster import DriverTestCluster
    from dray.driverkit.subject import DriverUnderTest

NAMESPACE = "default"
CLASS = "any-device"
_LOOK_SECONDS = 0.02


class CheckFailed(Exception):
    """A driver does not do what it must; the text says what was expected and what came."""


class Skipped(Exception):
    """A check that cannot be done here; the text says why."""


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    start: float = 30.0  # for a driver to register and to publish
    call: float = 10.0  # for an answer
    repair: float = 60.0  # for slices to be put right; drivers made with Go's library take half a minute
    quiet: float = 2.0  # how long nothing should happen


@dataclass(frozen=True)
class Places:
    """Where a driver finds things."""

    kubeconfig: Path
    node: str
    kubelet_dir: Path
    cdi_dir: Path

    @property
    def registry(self) -> Path:
        return self.kubelet_dir / "plugins_registry"

    def make(self) -> None:
        for directory in (self.registry, self.kubelet_dir / "plugins", self.cdi_dir):
            directory.mkdir(parents=True, exist_ok=True)

    def sockets(self) -> list[Path]:
        return sorted(self.registry.glob("*.sock")) + sorted((self.kubelet_dir / "plugins").glob("*/*.sock"))


@dataclass
class Setting:
    """One driver under test."""

    cluster: DriverTestCluster
    subject: DriverUnderTest
    places: Places
    patience: Patience = field(default_factory=Patience)
    registration: Path | None = None  # where it was found
    info: registration_pb2.PluginInfo = field(default_factory=registration_pb2.PluginInfo)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _made: list[ResourceClaim] = field(default_factory=list)
    has_published: bool = False

    # -- the driver

    @property
    def driver(self) -> str:
        return self.info.name

    @property
    def version(self) -> str:
        return self.versions()[0]

    def versions(self) -> list[str]:
        """The versions of DRA that it says it serves, the best first."""
        return [one for one in kubelet.VERSIONS if f"{one}.DRAPlugin" in self.info.supported_versions]

    async def find(self) -> None:
        """Wait for a registration socket that answers, and take its word."""
        last = "no socket appeared in plugins_registry"

        async def found() -> bool:
            nonlocal last
            if not self.subject.alive:
                raise CheckFailed(f"the driver ended before it was registered\n{self.subject.output()}")
            candidates = [self.registration] if self.registration else sorted(self.places.registry.glob("*.sock"))
            for socket in candidates:
                try:
                    self.info = await kubelet.get_info(socket, self.patience.call)
                    self.registration = socket
                    return True
                except DriverCallFailed as error:
                    last = str(error)
            return False

        await self.until(found, self.patience.start, lambda: f"{last}\n{self.subject.output()}")

    async def start(self) -> None:
        """Start the driver again and wait until it is registered."""
        self.registration = None
        await self.subject.start(self.places)
        await self.find()
        await self.notify()

    async def notify(self) -> None:
        assert self.registration is not None
        await kubelet.notify_registered(self.registration, self.patience.call)

    # -- slices

    async def slices(self) -> list[ResourceSlice]:
        page = await self.cluster.client.list(ResourceSlice, fields=f"spec.driver={self.driver}")
        return [one for one in page.items if (one.spec.nodeName or self.cluster.node) == self.cluster.node]

    async def devices(self, count: int = 1) -> list[tuple[str, str]]:
        """Pool and name of devices that a claim can have together; fewer where there are fewer."""
        free: list[tuple[str, str]] = []

        async def found() -> bool:
            nonlocal free
            slices = await self.slices()
            self.has_published = self.has_published or any(one.spec.devices for one in slices)
            claims = (await self.cluster.client.list(ResourceClaim)).items
            free = allocatable(slices, claims, self.cluster.node, count)
            return bool(free) or not self.has_published

        await self.until(found, self.patience.start, "no free device is published (any more)")
        if not free:
            raise Skipped("the driver has published no devices")
        return free

    # -- claims

    async def claim(
        self,
        count: int = 1,
        *,
        devices: Sequence[tuple[str, str]] | None = None,
        others: Sequence[Tree] = (),
        config: Sequence[Tree] = (),
    ) -> ResourceClaim:
        """A claim that is allocated, as a scheduler would write it: a request for each device."""
        chosen = [*devices] if devices is not None else await self.devices(count)
        results = [
            {"request": f"r{index}", "driver": self.driver, "pool": pool, "device": device}
            for index, (pool, device) in enumerate(chosen)
        ]
        requests = [result["request"] for result in results] + [other["request"] for other in others]
        claim = await self.unallocated_claim(requests)
        allocation = {"devices": {"results": [*results, *others], "config": [*config]}}
        return await self.cluster.client.patch_status(
            claim, msgspec.convert({"allocation": allocation}, ResourceClaimStatus)
        )

    async def unallocated_claim(self, requests: Sequence[str] = ("r0",)) -> ResourceClaim:
        name = f"driver-test-{next(self._numbers)}"
        wanted = [{"name": request, "exactly": {"deviceClassName": self.driver}} for request in requests]
        tree = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": {"requests": wanted}}}
        await self._remove(name)
        claim = await self.cluster.client.create(ResourceClaim, tree)
        self._made.append(claim)
        return claim

    async def delete(self, claim: ResourceClaim) -> None:
        await self._remove(claim.metadata.name)

    async def _remove(self, name: str) -> None:
        with suppress(NotFound):
            await self.cluster.client.delete(ResourceClaim, name, NAMESPACE)

    async def clean(self) -> None:
        """Unprepare and delete every claim that the last check made."""
        made, self._made = self._made, []
        for claim in made:
            with suppress(DriverCallFailed):  # the check has said so, or the driver does not run
                await self.call_unprepare(Reference.to(claim))
            await self.delete(claim)

    # -- calls

    async def call_prepare(self, *claims: Reference, version: str = "", timeout: float = 0) -> dict[str, Any]:
        endpoint = Path(self.info.endpoint)
        return await kubelet.prepare(endpoint, version or self.version, claims, timeout or self.patience.call)

    async def call_unprepare(self, *claims: Reference, version: str = "") -> dict[str, Any]:
        return await kubelet.unprepare(Path(self.info.endpoint), version or self.version, claims, self.patience.call)

    async def prepared(self, claim: ResourceClaim, version: str = "", timeout: float = 0) -> list[Tree]:
        """Prepare a claim, which must succeed; the devices of the answer in plain form."""
        call = self.call_prepare(Reference.to(claim), version=version, timeout=timeout)
        answer = await _succeeded(call, claim, "NodePrepareResources", "preparing an allocated claim")
        return [plain(device) for device in answer.devices]

    async def unprepared(self, claim: ResourceClaim, what: str = "unpreparing a prepared claim") -> None:
        """Unprepare a claim, which must succeed."""
        await _succeeded(self.call_unprepare(Reference.to(claim)), claim, "NodeUnprepareResources", what)

    async def refused(self, reference: Reference, what: str) -> None:
        """Preparing this must fail, with an error for the claim or for the call."""
        try:
            answers = await self.call_prepare(reference)
        except DriverCallFailed as error:
            if error.code.name in ("DEADLINE_EXCEEDED", "UNAVAILABLE"):
                raise CheckFailed(f"{what}: expected an error in the answer, got {error}") from error
            return
        answer = answers.get(reference.uid)
        if answer is None:
            raise CheckFailed(f"{what}: expected an error, but the claim is missing from the answer")
        if not answer.error:
            await self.call_unprepare(reference)
            raise CheckFailed(f"{what}: expected an error, but it was prepared")

    # -- CDI and waiting

    def unresolved(self, ids: Sequence[str]) -> str:
        """Why a container runtime could not use these CDI devices; empty when it could."""
        try:
            Specs([self.places.cdi_dir]).edits([*ids])
        except CdiError as error:
            return str(error)
        return ""

    async def until(
        self, check: Callable[[], Awaitable[bool]], seconds: float, failure: Callable[[], str] | str
    ) -> None:
        """Wait until something holds; Failed when it does not in time."""
        end = asyncio.get_running_loop().time() + seconds
        while not await check():
            if asyncio.get_running_loop().time() > end:
                raise CheckFailed(f"{failure if isinstance(failure, str) else failure()} (waited {seconds:g} s)")
            await asyncio.sleep(_LOOK_SECONDS)


async def _succeeded(call: Awaitable[dict[str, Any]], claim: ResourceClaim, method: str, what: str) -> Any:
    """The answer of a call for one claim, which must succeed."""
    try:
        answer = (await call).get(claim.metadata.uid)
    except DriverCallFailed as error:
        raise CheckFailed(f"{what} failed: {error}") from error
    if answer is None:
        raise CheckFailed(f"the answer to {method} lacks the claim {claim.metadata.uid}")
    if answer.error:
        raise CheckFailed(f"{what} failed: {answer.error}")
    return answer


def plain(device: Any) -> Tree:
    """A device of an answer, alike for all versions."""
    return {
        "requests": sorted(device.request_names),
        "pool": device.pool_name,
        "device": device.device_name,
        "cdi": list(device.cdi_device_ids),
    }


def pool_problem(slices: Sequence[ResourceSlice]) -> str:
    """Why a scheduler would not use a pool of these slices, or may not; empty when it would."""
    current = newest(slices)
    counts = sorted({one.spec.pool.resourceSliceCount for one in current})
    problem = problem_of(current)
    if len(counts) > 1:
        problem = PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, len(current), tuple(counts))
    return "" if problem is None else f"pool {slices[0].spec.pool.name}: {wording.pool_problem(problem)}"


def allocatable(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], node: str, count: int
) -> list[tuple[str, str]]:
    """Devices that the scheduler would give to one claim: partitions that exist at once, nothing that others hold."""
    where = Node(metadata=ObjectMeta(name=node))
    everything = DeviceClass(metadata=ObjectMeta(name=CLASS))
    held = [taken_by_claim(claim) for claim in claims]
    devices = [device for taken in held for device in taken.touched]
    for wanted in range(count, 0, -1):
        outcome = allocate(where, [claim_for_devices(CLASS, wanted)], [everything], slices, devices)
        if isinstance(outcome, Allocated):
            results = outcome.results[0]["devices"]["results"]
            return [(result["pool"], result["device"]) for result in results]
    # A pool with a fault that another check names gets no devices from the scheduler; the rest is tested all the same.
    listed = [
        DeviceId(one.spec.driver, one.spec.pool.name, device.name) for one in slices for device in one.spec.devices
    ]
    return [(device.pool, device.device) for device in listed if device not in devices][:count]
