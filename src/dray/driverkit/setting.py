"""The environment of checks: cluster, driver, sockets, and claims that are allocated as a scheduler would."""

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
    """A driver violates a requirement. The text says what was expected and what happened."""


class Skipped(Exception):
    """A check cannot be done here. The text gives the reason."""


@dataclass(frozen=True)
class Patience:
    """Timeouts of the checks, in seconds."""

    start: float = 30.0  # until a driver registers and publishes
    call: float = 10.0  # until a call is answered
    repair: float = 60.0  # until slices are repaired; drivers that use Go's library need half a minute
    quiet: float = 2.0  # period in which nothing should happen


@dataclass(frozen=True)
class Places:
    """The kubeconfig, node name and directories that a driver uses."""

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
    """The test environment of one driver.

    `has_published` is True once the driver has published a device.
    """

    cluster: DriverTestCluster
    subject: DriverUnderTest
    places: Places
    patience: Patience = field(default_factory=Patience)
    registration: Path | None = None  # the driver's registration socket
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
        """Return the DRA versions that the driver announces, the preferred one first.

        Versions are such as "v1"; unknown ones are left out.
        """
        return [one for one in kubelet.VERSIONS if f"{one}.DRAPlugin" in self.info.supported_versions]

    async def find(self) -> None:
        """Wait until a registration socket answers, and store its information. Raises `CheckFailed` if none does."""
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
        """Tell the driver that its registration was accepted."""
        assert self.registration is not None
        await kubelet.notify_registered(self.registration, self.patience.call)

    # -- slices

    async def slices(self) -> list[ResourceSlice]:
        page = await self.cluster.client.list(ResourceSlice, fields=f"spec.driver={self.driver}")
        return [one for one in page.items if (one.spec.nodeName or self.cluster.node) == self.cluster.node]

    async def devices(self, count: int = 1) -> list[tuple[str, str]]:
        """Return pool and name of up to `count` devices for one claim. Raises `Skipped` if there are none."""
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
        """Create an allocated claim as a scheduler would, with one request for each device, and return the claim.

        `others` and `config` are further allocation results and configurations. `devices` are pairs of pool and
        device; without them up to `count` free devices are chosen. Raises Skipped if the driver has published no
        devices.
        """
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
        """Unprepare and delete every claim that the last check created."""
        made, self._made = self._made, []
        for claim in made:
            with suppress(DriverCallFailed):  # the check has reported this, or the driver does not run
                await self.call_unprepare(Reference.to(claim))
            await self.delete(claim)

    # -- calls

    async def call_prepare(self, *claims: Reference, version: str = "", timeout: float = 0) -> dict[str, Any]:
        endpoint = Path(self.info.endpoint)
        return await kubelet.prepare(endpoint, version or self.version, claims, timeout or self.patience.call)

    async def call_unprepare(self, *claims: Reference, version: str = "") -> dict[str, Any]:
        return await kubelet.unprepare(Path(self.info.endpoint), version or self.version, claims, self.patience.call)

    async def prepared(self, claim: ResourceClaim, version: str = "", timeout: float = 0) -> list[Tree]:
        """Prepare a claim and return its devices in plain form. Raises `CheckFailed` if that fails.

        `version` "" means the driver's preferred version, `timeout` 0 the usual time. `timeout` is in seconds.
        """
        call = self.call_prepare(Reference.to(claim), version=version, timeout=timeout)
        answer = await _succeeded(call, claim, "NodePrepareResources", "preparing an allocated claim")
        return [plain(device) for device in answer.devices]

    async def unprepared(self, claim: ResourceClaim, what: str = "unpreparing a prepared claim") -> None:
        """Unprepare a claim. Raises `CheckFailed` if that fails.

        `what` describes the attempt in the error.
        """
        await _succeeded(self.call_unprepare(Reference.to(claim)), claim, "NodeUnprepareResources", what)

    async def refused(self, reference: Reference, what: str) -> None:
        """Raise `CheckFailed` unless preparing this claim fails, with an error for the claim or for the call.

        `what` describes the attempt in the error. A call that times out or cannot be made does not count as an error
        of the driver.
        """
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
        """Return why a container runtime could not use these CDI devices, or "" if it could.

        The text is the error of merging the edits of these devices from the specs in the CDI directory.
        """
        try:
            Specs([self.places.cdi_dir]).edits([*ids])
        except CdiError as error:
            return str(error)
        return ""

    async def until(
        self, check: Callable[[], Awaitable[bool]], seconds: float, failure: Callable[[], str] | str
    ) -> None:
        """Wait until `check` returns True. Raises `CheckFailed` after `seconds`."""
        end = asyncio.get_running_loop().time() + seconds
        while not await check():
            if asyncio.get_running_loop().time() > end:
                raise CheckFailed(f"{failure if isinstance(failure, str) else failure()} (waited {seconds:g} s)")
            await asyncio.sleep(_LOOK_SECONDS)


async def _succeeded(call: Awaitable[dict[str, Any]], claim: ResourceClaim, method: str, what: str) -> Any:
    """Return the answer of a call for one claim. Raises `CheckFailed` if the call or the claim failed.

    `method` and `what` are the words for the call and the attempt in the error. A claim that the answer lacks has
    failed.
    """
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
    """Return a device of an answer in a form that is the same for all versions."""
    return {
        "requests": sorted(device.request_names),
        "pool": device.pool_name,
        "device": device.device_name,
        "cdi": list(device.cdi_device_ids),
    }


def pool_problem(slices: Sequence[ResourceSlice]) -> str:
    """Return why a scheduler might not use a pool with these slices, or "" if it would.

    All `slices` belong to one pool; only those of its newest generation count.
    """
    current = newest(slices)
    counts = sorted({one.spec.pool.resourceSliceCount for one in current})
    problem = problem_of(current)
    if len(counts) > 1:
        problem = PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, len(current), tuple(counts))
    return "" if problem is None else f"pool {slices[0].spec.pool.name}: {wording.pool_problem(problem)}"


def allocatable(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], node: str, count: int
) -> list[tuple[str, str]]:
    """Return up to `count` devices that the scheduler could allocate to one claim, in addition to existing claims."""
    where = Node(metadata=ObjectMeta(name=node))
    everything = DeviceClass(metadata=ObjectMeta(name=CLASS))
    held = [taken_by_claim(claim) for claim in claims]
    devices = [device for taken in held for device in taken.touched]
    for wanted in range(count, 0, -1):
        outcome = allocate(where, [claim_for_devices(CLASS, wanted)], [everything], slices, devices)
        if isinstance(outcome, Allocated):
            results = outcome.results[0]["devices"]["results"]
            return [(result["pool"], result["device"]) for result in results]
    # The scheduler allocates no devices of a faulty pool, which another check reports; test its devices all the same.
    listed = [
        DeviceId(one.spec.driver, one.spec.pool.name, device.name) for one in slices for device in one.spec.devices
    ]
    return [(device.pool, device.device) for device in listed if device not in devices][:count]
