"""How fast requests for pool status are answered, and what a flood of them costs scheduling.

All in one process: the real API server on a memory store, the controllers, and, for the flood, the scheduler. Compare the
two rates of one line with each other; everything else depends on the machine.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from dray.api.gates import FeatureGates
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate, ResourcePoolStatusRequest, ResourceSlice
from dray.api.users import ADMIN, AUTHENTICATED, MASTERS, User
from dray.apiserver.assembly import Running, ServerSettings
from dray.benchmarks.scheduling import PLAIN, BenchmarkCluster
from dray.client import Client, InProcess, SharedInformers
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from dray.sim.hardware import DRIVER
from dray.sim.nodes import register

GATES = FeatureGates.parse("DRAResourcePoolStatus=true")
DEVICES = 8
ASKED = 50
USERS, REQUESTS_A_USER = 100, 10
PODS = 3000


@asynccontextmanager
async def cluster(*, nodes: int = 0) -> AsyncIterator[tuple[Running, InProcess, SharedInformers]]:
    """The API server and the controllers; with nodes, also a scheduler."""
    running = await Running.open(ServerSettings(gates=GATES))
    client = InProcess(running.api, ADMIN)
    informers = SharedInformers(client)

    def account(name: str) -> Client:
        return InProcess(running.api, User(f"system:serviceaccount:kube-system:{name}", groups=(AUTHENTICATED,)))

    parts = [ControllerManager(client, gates=GATES, informers=informers, accounts=account).run]
    if nodes:
        await register(client, nodes, DEVICES)
        parts.append(Scheduler(client, GATES, informers=informers).run)
    tasks = [asyncio.create_task(part()) for part in parts]
    await asyncio.sleep(0)
    await informers.synced()
    calm_collector()
    try:
        yield running, client, informers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await informers.stop()
        await running.close()


def calm_collector() -> None:
    """As `dray up` does: what exists will stay, and collections are rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def slice_tree(number: int) -> dict[str, Any]:
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
    spec = {"driver": DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return {"metadata": {"name": f"slice-{number}"}, "spec": spec}


async def fill(client: Client, pools: int, devices_a_claim: int) -> None:
    """Publish pools and allocate every device."""
    for pool in range(pools):
        await client.create(ResourceSlice, slice_tree(pool))
        for first in range(0, DEVICES, devices_a_claim):
            await _allocated(client, f"claim-{pool}-{first}", pool, range(first, first + devices_a_claim))


async def _allocated(client: Client, name: str, pool: int, devices: range) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": len(devices)}}
    await client.create(
        ResourceClaim,
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}},
    )
    results = [{"request": "r", "driver": DRIVER, "pool": f"node-{pool}", "device": f"gpu-{at}"} for at in devices]
    status = {"status": {"allocation": {"devices": {"results": results}}}}
    await client.patch(ResourceClaim, name, status, "default", subresource="status")


async def ask(client: Client, name: str, **spec: Any) -> float:
    """Seconds from the creation of a request to its answer."""
    started = time.perf_counter()
    made = await client.create(
        ResourcePoolStatusRequest, {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}}
    )
    version = made.metadata.resourceVersion
    async for batch in client.watch(
        ResourcePoolStatusRequest, fields=f"metadata.name={name}", resource_version=version
    ):
        if any(event.object.status is not None and event.object.status.observationTime for event in batch):
            break
    return time.perf_counter() - started


async def answers(pools: int, devices_a_claim: int, limit: int) -> None:
    async with cluster() as (running, client, _):
        await fill(client, pools, devices_a_claim)
        await ask(client, "first")  # answered once the controllers are through with what was made
        users = [InProcess(running.api, User(f"u{i}", groups=(MASTERS,))) for i in range(ASKED)]
        seconds = sorted([await ask(user, f"r{i}", limit=limit) for i, user in enumerate(users)])
        claims = pools * DEVICES // devices_a_claim
        middle, late = seconds[ASKED // 2], seconds[int(ASKED * 0.99)]
        print(
            f"{pools} pools of {DEVICES}, {claims} claims, limit {limit}: "
            f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms",
            flush=True,
        )


async def flood() -> None:
    """Pods a second while pods come and go, without and with a thousand requests that come at once."""
    async with cluster(nodes=200) as (running, client, informers):
        await client.create(ResourceClaimTemplate, PLAIN.template())
        measured = BenchmarkCluster(client, informers)
        await measured.steady(PLAIN, PODS // 4)  # warm
        # All are admitted: each user stays below the limit, and each turn has new users.
        rates: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(3):
            rates[False].append(await rate(measured))
            users = [InProcess(running.api, User(f"user-{turn}-{i}", groups=(MASTERS,))) for i in range(USERS)]
            pouring = asyncio.create_task(pour(users, turn))
            rates[True].append(await rate(measured))
            await pouring
            await client.delete_collection(ResourcePoolStatusRequest)
        without, with_ = (sorted(rates[flooded])[1] for flooded in (False, True))
        print(
            f"scheduling without a flood {without:.0f} pods a CPU second, with {USERS * REQUESTS_A_USER} requests of "
            f"{USERS} users {with_:.0f}: {(1 - with_ / without) * 100:.1f} % slower",
            flush=True,
        )


async def rate(measured: BenchmarkCluster) -> float:
    """Pods for each second of the processor, which other programs on the machine disturb less than the clock."""
    before = time.process_time()
    await measured.steady(PLAIN, PODS)
    return PODS / (time.process_time() - before)


async def pour(users: list[InProcess], turn: int) -> None:
    for number in range(REQUESTS_A_USER):
        for at, user in enumerate(users):
            tree = {"metadata": {"name": f"flood-{turn}-{at}-{number}"}, "spec": {"driver": DRIVER}}
            await user.create(ResourcePoolStatusRequest, tree)
            await asyncio.sleep(0)


async def figures() -> None:
    await answers(1000, 1, 100)
    await answers(1000, 1, 1000)
    await answers(10_000, 8, 1000)
    await flood()


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(figures())
