"""Benchmark of scheduling throughput in one process, used by `dray bench scheduling`.

A cluster of simulated nodes with the real API server on a memory store, real controllers and the real scheduler;
clients in the same process create pods. Results are only measured, not judged.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from dray.api.extended_resources import IMPLICIT_PREFIX
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaimTemplate, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Deltas, InProcess, SharedInformers
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from dray.sim.hardware import CLASS, DRIVER, node_name, slice_trees
from dray.sim.nodes import register

NAMESPACE = "default"
IN_FLIGHT = 20  # pods waiting for a node at the same time in the steady state
_SELECTOR = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) >= 0'
_ROOT = "resource.kubernetes.io/pcieRoot"


@dataclass(frozen=True)
class BenchmarkWorkload:
    """Requests of each pod."""

    name: str
    requests: tuple[dict[str, Any], ...] | None
    constraints: tuple[dict[str, Any], ...] = ()
    extended: str = ""  # extended resource of which each pod requests one unit

    def template(self) -> dict[str, Any]:
        """Return the claim template of the workload."""
        devices: dict[str, Any] = {"requests": list(self.requests or ()), "constraints": list(self.constraints)}
        return {"metadata": {"name": self.name, "namespace": NAMESPACE}, "spec": {"spec": {"devices": devices}}}

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod of the workload."""
        container: dict[str, Any] = {"name": "c", "image": "pause"}
        spec: dict[str, Any] = {"containers": [container]}
        if self.requests is not None:
            container["resources"] = {"claims": [{"name": "d"}]}
            spec["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": self.name}]
        if self.extended:
            container["resources"] = {"limits": {self.extended: "1"}}
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def one(count: int = 1, selector: str = "") -> dict[str, Any]:
    """Return a request for `count` devices, optionally with a selector."""
    exactly: dict[str, Any] = {"deviceClassName": CLASS, "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"name": "r", "exactly": exactly}


def alternatives(number: int) -> dict[str, Any]:
    """Return a request of which only the last of `number` alternatives can be satisfied."""
    missing = [f'device.attributes["{DRIVER}"].model == "none-{i}"' for i in range(number - 1)]
    listed = [
        {"name": f"a{i}", "deviceClassName": CLASS, "selectors": [{"cel": {"expression": text}}]}
        for i, text in enumerate([*missing, _SELECTOR])
    ]
    return {"name": "r", "firstAvailable": listed}


PLAIN = BenchmarkWorkload("plain", (one(),))
SELECTOR = BenchmarkWorkload("selector", (one(selector=_SELECTOR),))
FIVE = BenchmarkWorkload("five", (one(4),), ({"matchAttribute": _ROOT, "requests": ["r"]},))
NO_CLAIMS = BenchmarkWorkload("no-claims", None)
EXTENDED = BenchmarkWorkload("extended", None, extended=f"{IMPLICIT_PREFIX}{CLASS}")


class BenchmarkCluster:
    """A running cluster with the pods of a measurement."""

    def __init__(self, client: InProcess, informers: SharedInformers) -> None:
        self.client = client
        self.informers = informers
        self.bound: asyncio.Queue[str] = asyncio.Queue()
        self.refused: asyncio.Queue[str] = asyncio.Queue()
        self._count = 0
        informers.informer(Pod).add_handler(self._note)

    def _note(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if new is not None and new.spec.nodeName and (old is None or not old.spec.nodeName):
                self.bound.put_nowait(new.metadata.name)
            elif new is not None and new.status.conditions and old is not None and not old.status.conditions:
                self.refused.put_nowait(new.metadata.name)

    async def create(self, workload: BenchmarkWorkload) -> str:
        """Create a pod of the workload. Returns its name."""
        self._count += 1
        name = f"{workload.name}-{self._count}"
        await self.client.create(Pod, workload.pod(name))
        return name

    async def wait(self, number: int) -> None:
        """Wait until this many further pods are bound."""
        for _ in range(number):
            await self.bound.get()

    async def burst(self, workload: BenchmarkWorkload, number: int) -> float:
        """Create pods all at once. Returns pods per second."""
        started = time.perf_counter()
        creating = asyncio.create_task(self._create_many(workload, number))
        await self.wait(number)
        await creating
        return number / (time.perf_counter() - started)

    async def _create_many(self, workload: BenchmarkWorkload, number: int) -> None:
        for i in range(number):
            await self.create(workload)
            if i % 10 == 9:
                await asyncio.sleep(0)

    async def steady(self, workload: BenchmarkWorkload, number: int) -> float:
        """Delete and replace each pod that got a node. Returns pods per second."""
        started = time.perf_counter()
        for _ in range(min(IN_FLIGHT, number)):
            await self.create(workload)
        left = number - min(IN_FLIGHT, number)
        for _ in range(number):
            name = await self.bound.get()
            await self.client.delete(Pod, name, NAMESPACE, grace=0)
            if left:
                left -= 1
                await self.create(workload)
        return number / (time.perf_counter() - started)

    async def reaction(
        self, workload: BenchmarkWorkload, appear: Callable[[], Any], vanish: Callable[[], Any], tries: int
    ) -> list[float]:
        """Measure the time from the appearance of what a pod waits for until the pod is bound.

        Returns sorted seconds of all tries.
        """
        seconds: list[float] = []
        for _ in range(tries):
            await vanish()
            name = await self.create(workload)
            await asyncio.sleep(0.02)
            started = time.perf_counter()
            await appear()
            await self.wait(1)
            seconds.append(time.perf_counter() - started)
            await self.client.delete(Pod, name, NAMESPACE, grace=0)
            await asyncio.sleep(0.01)
        return sorted(seconds)


@asynccontextmanager
async def cluster(
    nodes: int, devices: int, workloads: tuple[BenchmarkWorkload, ...] = (), gates: FeatureGates | None = None
) -> AsyncIterator[BenchmarkCluster]:
    """Context manager: cluster whose nodes exist but run no pods, as in Kubernetes' own scheduling benchmark."""
    gates = gates or FeatureGates()
    running = await Running.open(ServerSettings(keys=None, gates=gates))
    client = InProcess(running.api, ADMIN)
    informers = SharedInformers(client)
    await register(client, nodes, devices)
    measured = BenchmarkCluster(client, informers)
    parts = [
        ControllerManager(client, gates=gates, informers=informers).run,
        Scheduler(client, gates, informers=informers, give_way=running.api.priority.give_way).run,
    ]
    for workload in workloads:
        if workload.requests is not None:
            await client.create(ResourceClaimTemplate, workload.template())
    tasks = [asyncio.create_task(part()) for part in parts]
    await informers.synced()
    _calm_collector()
    try:
        yield measured
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await informers.stop()
        await running.close()
        gc.unfreeze()


def _calm_collector() -> None:
    """Freeze existing objects and make garbage collections rare, as `dray up` does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


async def burst_into_half_full(nodes: int, devices: int, pods: int) -> list[float]:
    """Fill half of the devices, then measure a burst in up to three parts. Returns pods per second of each part."""
    parts = min(3, pods)
    async with cluster(nodes, devices, (PLAIN,)) as measured:
        await measured.burst(PLAIN, nodes * devices // 2)
        return [await measured.burst(PLAIN, pods // parts) for _ in range(parts)]


async def steady_state(nodes: int, devices: int, pods: int, workload: BenchmarkWorkload) -> float:
    """Measure the steady state of a workload after a warm-up. Returns pods per second."""
    async with cluster(nodes, devices, (workload,)) as measured:
        await measured.steady(workload, min(pods, 100))  # warm
        return await measured.steady(workload, pods)


async def burst_of(nodes: int, devices: int, pods: int, workload: BenchmarkWorkload) -> float:
    """Measure a burst of a workload. Returns pods per second."""
    async with cluster(nodes, devices, (workload,)) as measured:
        return await measured.burst(workload, pods)


async def replacements(waiting: int, number: int) -> float:
    """Measure how fast waiting pods get devices when pods leave a full cluster. Returns pods per second."""
    nodes, devices = 4, 8
    async with cluster(nodes, devices, (PLAIN,)) as measured:
        for _ in range(nodes * devices + waiting):
            await measured.create(PLAIN)
        for _ in range(waiting):
            await measured.refused.get()
        started = time.perf_counter()
        for _ in range(number):
            await measured.client.delete(Pod, await measured.bound.get(), NAMESPACE, grace=0)
        await measured.wait(nodes * devices)
        return number / (time.perf_counter() - started)


async def reactions(tries: int) -> dict[str, list[float]]:
    """Measure how long a pod waits after a missing class, template or slice appears. Returns sorted times by kind."""
    async with cluster(3, 8, (PLAIN,)) as measured:
        client = measured.client
        class_ = {"metadata": {"name": CLASS}, "spec": {}}

        async def no_class() -> None:
            await client.delete(DeviceClass, CLASS)

        async def a_class() -> None:
            await client.create(DeviceClass, class_)

        async def no_template() -> None:
            await client.delete(ResourceClaimTemplate, PLAIN.name, NAMESPACE)

        async def a_template() -> None:
            await client.create(ResourceClaimTemplate, PLAIN.template())

        slices = [s.metadata.name for s in measured.informers.informer(ResourceSlice).list()]

        async def no_slices() -> None:
            for name in slices:
                await client.delete(ResourceSlice, name)

        async def a_slice() -> None:
            for number in range(3):
                node = await client.get(Node, node_name(number))
                for tree in slice_trees(number, 8, node.metadata.uid):
                    await client.create(ResourceSlice, tree)

        return {
            "class": await measured.reaction(PLAIN, a_class, no_class, tries),
            "template": await measured.reaction(PLAIN, a_template, no_template, tries),
            "slices": await measured.reaction(PLAIN, a_slice, no_slices, tries),
        }
