"""One claim for ten thousand pods over two thousand nodes: through a PodGroup, and through `spec.reservedFor`.

Everything runs in one process, as in `dray up`: API server on a memory store, all controllers, scheduler, and simulated
nodes that check each pod's claims before they run it. Rates stand beside those of pods without claims in the same run.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvloop

from dray.api.gates import FeatureGates
from dray.api.types.core import ConfigMap, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess, SharedInformers
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from dray.sim import SimulatedNodes

PODS = 10_000
NODES = 2_000
GROUPS = 1_000  # that come and go
CLIENTS = 4
NAMESPACE = "default"
DRIVER = "net.example.com"
GATES = FeatureGates.parse(
    "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true,DRAReservedForWorkloads=true"
)
REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "net"}}]}}


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_figures())


async def _figures() -> None:
    bare = await _share("without claims", _nothing)
    for name, prepare in (("through a PodGroup", _group), ("through spec.reservedFor", _workload)):
        rate = await _share(name, prepare)
        print(f"  that is {rate / bare:.2f} of the rate without claims (target 0.5)", flush=True)
    await _churn()


# Sharing


async def _share(name: str, prepare: Callable[[InProcess], Any]) -> float:
    async with _cluster(NODES) as (client, informers):
        entries = await prepare(client)
        pods = informers.informer(Pod)
        pods.add_index("bench phase", lambda pod: [pod.status.phase, *(["bound"] if pod.spec.nodeName else [])])
        started = time.perf_counter()
        creating = asyncio.create_task(_create(client, entries))
        await _until(lambda: len(pods.by_index("bench phase", "bound")) == PODS)
        bound = time.perf_counter() - started
        await _until(lambda: len(pods.by_index("bench phase", "Running")) == PODS)
        ran = time.perf_counter() - started
        await creating
        print(f"{PODS} pods {name}: {PODS / bound:.0f} pods/s bound, all run after {ran:.1f} s", flush=True)
        if entries:
            (claim,) = (await client.list(ResourceClaim, NAMESPACE)).items
            print(f"  the claim has {len(msgspec.json.encode(claim))} bytes (target 4096)")
            await _evict(client, pods)
        return PODS / bound


async def _create(client: InProcess, entries: dict[str, Any]) -> None:
    for number in range(PODS):
        spec = {"containers": [{"name": "c", "image": "pause"}], **entries}
        await client.create(Pod, {"metadata": {"name": f"p{number}", "namespace": NAMESPACE}, "spec": spec})
        if number % 10 == 9:
            await asyncio.sleep(0)


async def _nothing(client: InProcess) -> dict[str, Any]:
    return {}


async def _group(client: InProcess) -> dict[str, Any]:
    await _make_group(client, "g")
    return {
        "workloadRef": {"name": "w", "podGroupName": "g"},
        "resourceClaims": [{"name": "x", "podGroupResourceClaim": "claim"}],
    }


async def _workload(client: InProcess) -> dict[str, Any]:
    made = await client.create(ConfigMap, {"metadata": {"name": "w"}}, namespace=NAMESPACE)
    reference = {"resource": "configmaps", "name": "w", "uid": made.metadata.uid}
    tree = {"metadata": {"name": "c"}, "spec": {**REQUESTS, "reservedFor": reference}}
    await client.create(ResourceClaim, tree, namespace=NAMESPACE)
    return {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}


async def _make_group(client: InProcess, name: str) -> None:
    spec = {
        "schedulingPolicy": {"basic": {}},
        "resourceClaims": [{"name": "claim", "resourceClaimTemplateName": "t"}],
    }
    await client.create(PodGroup, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)


async def _evict(client: InProcess, pods: Any) -> None:
    started = time.perf_counter()
    rule = {
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "broken", "effect": "NoExecute"}},
    }
    await client.create(DeviceTaintRule, rule)
    await _until(lambda: len(pods) == 0)
    print(f"  one taint rule evicted all of them in {time.perf_counter() - started:.1f} s (target 30)", flush=True)


# Coming and going


async def _churn() -> None:
    async with _cluster(16) as (client, informers):
        started = time.perf_counter()

        async def one(worker: int) -> None:
            for turn in range(GROUPS // CLIENTS):
                name = f"g{worker}-{turn}"
                await _make_group(client, name)
                spec = {
                    "containers": [{"name": "c", "image": "pause"}],
                    "workloadRef": {"name": "w", "podGroupName": name},
                    "resourceClaims": [{"name": "x", "podGroupResourceClaim": "claim"}],
                }
                await client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)
                await client.delete(PodGroup, name, NAMESPACE)
                await client.delete(Pod, name, NAMESPACE)

        await asyncio.gather(*(one(worker) for worker in range(CLIENTS)))
        claims, groups = informers.informer(ResourceClaim), informers.informer(PodGroup)
        await _until(lambda: not len(claims) and not len(groups))
        print(f"{GROUPS} groups with a pod came and went in {time.perf_counter() - started:.1f} s", flush=True)


# The cluster


@asynccontextmanager
async def _cluster(nodes: int) -> AsyncIterator[tuple[InProcess, SharedInformers]]:
    running = await Running.open(ServerSettings(gates=GATES))
    client = InProcess(running.api, ADMIN)
    informers = SharedInformers(client)
    simulated = SimulatedNodes(client, informers, nodes, 0, gates=GATES)
    await _publish(client)
    parts = (
        ControllerManager(client, gates=GATES, informers=informers).run,
        Scheduler(client, GATES, informers=informers).run,
        simulated.run,
    )
    tasks = [asyncio.create_task(part()) for part in parts]
    await informers.synced()
    await asyncio.sleep(1)  # the nodes register
    gc.collect()
    gc.freeze()
    try:
        yield client, informers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await informers.stop()
        await running.close()
        gc.unfreeze()


async def _publish(client: InProcess) -> None:
    """Devices of the network, which every node reaches."""
    await client.create(DeviceClass, {"metadata": {"name": "net"}, "spec": {}})
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"d{n}"} for n in range(64)]
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}
    await client.create(ResourceSlice, {"metadata": {"name": "net"}, "spec": spec})
    template = {"metadata": {"name": "t"}, "spec": {"spec": REQUESTS}}
    await client.create(ResourceClaimTemplate, template, namespace=NAMESPACE)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (a benchmark may poll)
        await asyncio.sleep(0.02)
