"""A whole cluster in the process whose parts can be stopped, and started again with other feature gates."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.types.core import Event, Namespace, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.read.storage import decode
from dray.client import Client, Clock, InProcess, SharedInformers
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from dray.sim import SimulatedNodes
from dray.store import Cache, MemoryLog
from tests.waiting import eventually, within

GROUPS = "WorkloadPodGroupResourceClaimTemplate"
WORKLOADS = "DRAReservedForWorkloads"
ALL = FeatureGates.parse(f"GenericWorkload=true,{GROUPS}=true,{WORKLOADS}=true")
NONE = FeatureGates.parse("")
PARTS = ("apiserver", "controllers", "scheduler", "nodes")
DRIVER = "net.example.com"
CONTROLLERS = (
    "device-taint-eviction,garbage-collector,job,job-claims,podgroup-protection,replicaset,deployment,resourceclaim"
)


def without(gate: str) -> FeatureGates:
    """All gates of sharing but one."""
    return FeatureGates.of({**ALL.chosen, gate: False})


class Cluster:
    """`nodes` simulated nodes that see `devices` devices of the network, in namespace `ns`."""

    def __init__(self, nodes: int = 3, devices: int = 4, controllers: str = CONTROLLERS) -> None:
        self._nodes = nodes
        self._devices = devices
        self._controllers = controllers
        self._log = MemoryLog()
        self._tasks: dict[str, tuple[asyncio.Task[None], SharedInformers]] = {}
        self._numbers = itertools.count()
        self.server: Running
        self.client: Client

    async def open(self, gates: FeatureGates = ALL, *, parts: tuple[str, ...] = PARTS[1:]) -> None:
        self._cache = await Cache.open(self._log, decode)
        await self.serve(gates)
        await self.client.create(Namespace, {"metadata": {"name": "ns"}})
        await self.client.create(DeviceClass, {"metadata": {"name": "example"}, "spec": {}})
        await self.publish(self._devices)
        for part in parts:
            await self.start(part, gates)

    async def serve(self, gates: FeatureGates) -> None:
        """Run the API server with these gates, from now on, for parts that are started afterwards."""
        settings = ServerSettings(
            authenticate=False, gates=gates, disabled_plugins=("ServiceAccount", "NamespaceDefaults")
        )
        self.server = Running(self._log, self._cache, settings)
        self.client = InProcess(self.server.api, ADMIN)

    async def start(self, part: str, gates: FeatureGates = ALL, *, clock: Clock | None = None) -> None:
        """Start a part; the name may carry a suffix (`controllers-2`) to run it twice."""
        informers = SharedInformers(self.client)
        work: Coroutine[Any, Any, None]
        kind = part.partition("-")[0]
        if kind == "controllers":
            manager = ControllerManager(
                self.client, gates=gates, controllers=self._controllers, informers=informers, clock=clock
            )
            work = manager.run()
        elif kind == "scheduler":
            work = Scheduler(self.client, gates, informers=informers).run()
        else:
            work = self._run_nodes(SimulatedNodes(self.client, informers, self._nodes, 0, gates=gates), informers)
        await informers.start()
        self._tasks[part] = asyncio.create_task(work, name=part), informers
        await within(informers.synced())

    async def _run_nodes(self, nodes: SimulatedNodes, informers: SharedInformers) -> None:
        await informers.start()
        await nodes.run()

    async def stop(self, part: str) -> None:
        """End a part in the middle of whatever it does."""
        task, informers = self._tasks.pop(part)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await informers.stop()

    async def restart(self, part: str, gates: FeatureGates) -> None:
        """A part comes back with other gates; the API server takes all others along, for they were its clients."""
        if part == "apiserver":
            await self.serve(gates)
            return
        if part in self._tasks:
            await self.stop(part)
        await self.start(part, gates)

    async def close(self) -> None:
        for part in [*self._tasks]:
            await self.stop(part)
        await self.server.close()

    # What is in it

    async def publish(self, devices: int, taints: dict[str, list[dict[str, str]]] | None = None) -> None:
        """Devices that every node can reach; publishing again replaces them."""
        listed = [{"name": f"d{n}", "taints": (taints or {}).get(f"d{n}", [])} for n in range(devices)]
        generation = next(self._numbers) + 1
        pool = {"name": "net", "generation": generation, "resourceSliceCount": 1}
        tree: dict[str, Any] = {
            "metadata": {"name": "net"},
            "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": listed},
        }
        if generation > 1:
            await self.client.delete(ResourceSlice, "net")
        await self.client.create(ResourceSlice, tree)

    async def template(self, name: str = "t", **spec: Any) -> ResourceClaimTemplate:
        tree = {"metadata": {"name": name}, "spec": {"spec": {**requests(), **spec}}}
        return await self.client.create(ResourceClaimTemplate, tree, namespace="ns")

    async def claim(self, name: str = "c", **spec: Any) -> ResourceClaim:
        tree = {"metadata": {"name": name}, "spec": {**requests(), **spec}}
        return await self.client.create(ResourceClaim, tree, namespace="ns")

    async def group(self, name: str = "g", **claims: str) -> PodGroup:
        """A group with entries by name: `t:NAME` for a template, otherwise the name of a claim."""
        spec = {
            "schedulingPolicy": {"basic": {}},
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "resourceClaims": [{"name": entry, **_source(source)} for entry, source in claims.items()],
        }
        return await self.client.create(PodGroup, {"metadata": {"name": name}, "spec": spec}, namespace="ns")

    async def local_devices(self, *nodes: str) -> None:
        """One device on each of these nodes, in place of those of the network."""
        await self.client.delete(ResourceSlice, "net")
        for node in nodes:
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": "d"}]}
            await self.client.create(ResourceSlice, {"metadata": {"name": node}, "spec": spec})

    async def pod(self, name: str = "p", group: str = "", seed: bool = True, node: str = "", **claims: str) -> Pod:
        """A pod with entries by name: `g:NAME` for an entry of its group, `t:` for a template, else a claim."""
        entries = [{"name": entry, **_source(source)} for entry, source in claims.items()]
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries}
        if group and seed:
            spec["workloadRef"] = {"name": "w", "podGroupName": group}
        elif group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        return await self.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace="ns")

    # What became of it

    async def read(self, name: str = "c") -> ResourceClaim:
        return await self.client.get(ResourceClaim, name, "ns")

    async def claims(self) -> list[ResourceClaim]:
        return list((await self.client.list(ResourceClaim, "ns")).items)

    async def the_claim(self) -> ResourceClaim:
        (claim,) = await self.claims()
        return claim

    async def reserved(self, *consumers: str, name: str = "c") -> ResourceClaim:
        """Wait until a claim is reserved for exactly these, by name, in any order."""
        return await self.settled(name, lambda c: sorted(r.name for r in c.status.reservedFor) == sorted(consumers))

    async def free(self, name: str = "c") -> ResourceClaim:
        return await self.settled(name, lambda c: c.status.allocation is None)

    async def settled(self, name: str, condition: Callable[[ResourceClaim], bool]) -> ResourceClaim:
        async def holds() -> bool:
            return condition(await self.read(name))

        await eventually(holds)
        return await self.read(name)

    async def running(self, *names: str) -> None:
        for name in names:
            await self.pod_is(name, lambda pod: pod.status.phase == "Running")

    async def scheduled(self, *names: str) -> None:
        for name in names:
            await self.pod_is(name, lambda pod: bool(pod.spec.nodeName))

    async def pod_is(self, name: str, condition: Callable[[Pod], bool]) -> None:
        async def holds() -> bool:
            return condition(await self.client.get(Pod, name, "ns"))

        await eventually(holds)

    async def waits(self, name: str, text: str) -> None:
        """Wait until a pod says why it is not scheduled."""

        async def told() -> bool:
            pod = await self.client.get(Pod, name, "ns")
            return any(c.type == "PodScheduled" and text in c.message for c in pod.status.conditions)

        await eventually(told)

    async def event(self, reason: str, text: str = "", about: str = "") -> None:
        async def told() -> bool:
            events = (await self.client.list(Event, "ns")).items
            return any(
                e.reason == reason and text in e.message and about in ("", e.involvedObject.name) for e in events
            )

        await eventually(told)

    async def finish(self, name: str) -> None:
        await self.client.patch(Pod, name, {"status": {"phase": "Succeeded"}}, "ns", subresource="status")

    async def delete(self, *pods: str) -> None:
        for name in pods:
            await self.client.delete(Pod, name, "ns")

    async def has(self, count: int) -> None:
        """Wait until there are so many claims."""

        async def counted() -> bool:
            return len(await self.claims()) == count

        await eventually(counted)


def requests(**more: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "example", **more}}]}}


def tolerating(seconds: int | None = None) -> dict[str, Any]:
    """Requests that put up with taint `broken`, for a while or for ever."""
    toleration: dict[str, Any] = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    return requests(tolerations=[{**toleration, "tolerationSeconds": seconds} if seconds is not None else toleration])


def _source(source: str) -> dict[str, str]:
    if source.startswith("t:"):
        return {"resourceClaimTemplateName": source.removeprefix("t:")}
    if source.startswith("g:"):
        return {"podGroupResourceClaim": source.removeprefix("g:")}
    return {"resourceClaimName": source}
