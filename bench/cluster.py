"""Pods per second as a user sees them, for each store and for several numbers of nodes.

A cluster of real processes gets nodes with ten devices each over HTTPS; then clients create pods, each with a claim from a
template, as fast as they can, until all pods have a node. Printed for memory, SQLite, etcd with one API server (`dray up`)
and etcd with two API servers, whose scheduler and controller manager are processes of their own; that is also done with one
API server on SQLite, since it costs much more than another store. Every line also has the processor time of a pod by parts,
which other work on the machine changes little. Selected by environment variables, for example
`STORES=sqlite,etcd NODES=500 PODS=1500 make bench ARGS=cluster`.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from bench._processes import MeasuredCluster, cluster
from bench.apiserver import Connection, Server

STORES = os.environ.get("STORES", "memory,sqlite,sqlite-apart,etcd,etcd-2").split(",")
NODES = [int(number) for number in os.environ.get("NODES", "500,5000,15000").split(",")]
PODS = int(os.environ.get("PODS", "2500"))
DEVICES = 10
CLIENTS = 8
DRIVER = "gpu.example.com"
RESOURCE = "/apis/resource.k8s.io/v1"
POD_PATH = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
_NAMES = {
    "memory": "memory",
    "sqlite": "SQLite",
    "sqlite-apart": "SQLite, scheduler and controllers apart",
    "etcd": "etcd, one API server",
    "etcd-2": "etcd, two API servers, scheduler and controllers apart",
}


def main() -> None:
    for nodes in NODES:
        rates: dict[str, float] = {}
        for store in STORES:
            with (
                tempfile.TemporaryDirectory(prefix="dray-bench-") as directory,
                cluster(Path(directory), store) as made,
            ):
                rates[store] = uvloop.run(_figures(made, store, nodes))
        if "sqlite" in rates:
            shares = [
                f"{_NAMES[store]} {rate / rates['sqlite']:.0%}" for store, rate in rates.items() if store != "sqlite"
            ]
            print(f"{nodes:,} nodes, rates as shares of SQLite's: {'; '.join(shares)}", flush=True)


async def _figures(made: MeasuredCluster, store: str, nodes: int) -> float:
    server = made.servers[0]
    begun = time.perf_counter()
    await _each(made.servers, nodes, _publish_node)
    connection = await Connection(server, server.port).open()
    await _publish_class(connection)
    set_up = time.perf_counter() - begun
    used = made.processor_seconds()
    begun = time.perf_counter()
    waiting = asyncio.create_task(_until_bound(server, connection))
    await _each(made.servers, PODS, _create_pod)
    await waiting
    seconds = time.perf_counter() - begun
    each = {part: (now - used[part]) / PODS * 1000 for part, now in made.processor_seconds().items()}
    await _check(connection)
    connection.close()
    print(
        f"{nodes:,} nodes, {_NAMES[store]}: {PODS / seconds:,.0f} pods/s, {sum(each.values()):.2f} ms of processor time a "
        f"pod ({', '.join(f'{part} {spent:.2f}' for part, spent in each.items())}; nodes published in {set_up:.0f} s)",
        flush=True,
    )
    return PODS / seconds


async def _each(servers: list[Server], count: int, act: Callable[[Connection, int], Awaitable[None]]) -> None:
    """Act for each number, with clients that share them; the clients are divided among the servers."""
    numbers = iter(range(count))

    async def client(at: int) -> None:
        server = servers[at % len(servers)]
        connection = await Connection(server, server.port).open()
        for number in numbers:
            await act(connection, number)
        connection.close()

    await asyncio.gather(*map(client, range(CLIENTS)))


async def _publish_node(connection: Connection, number: int) -> None:
    name = f"node-{number}"
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    status = {
        "capacity": allocatable,
        "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    await connection.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    await connection.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
    await connection.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(at) for at in range(DEVICES)],
    }
    await connection.ask("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": spec})


def _device(number: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {"model": {"string": "L4"}, "driverVersion": {"version": "1.2.3"}, "index": {"int": number}},
        "capacity": {"memory": {"value": "24Gi"}},
    }


async def _publish_class(connection: Connection) -> None:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    await connection.ask(
        "POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}
    )
    large = {"cel": {"expression": f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Gi"))'}}
    exactly = {"deviceClassName": "gpu", "selectors": [large]}
    template = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    path = f"{RESOURCE}/namespaces/default/resourceclaimtemplates"
    await connection.ask("POST", path, {"metadata": {"name": "gpu"}, "spec": template})


async def _create_pod(connection: Connection, number: int) -> None:
    container = {"name": "main", "image": "pause", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    await connection.ask("POST", POD_PATH, {"metadata": {"name": f"pod-{number}"}, "spec": spec})


async def _until_bound(server: Server, lister: Connection) -> None:
    """Follow the pods until as many as are created have a node."""
    version = json.loads(await lister.ask("GET", f"{POD_PATH}?limit=1"))["metadata"]["resourceVersion"]
    watch = await Connection(server, server.port).open()
    watch.send("GET", f"{POD_PATH}?watch=true&resourceVersion={version}&fieldSelector=spec.nodeName!%3D")
    bound = 0
    while bound < PODS:
        bound += (await watch.chunk()).count(b'{"type":"ADDED"')
    watch.close()


async def _check(connection: Connection) -> None:
    """Refuse to report a rate for which a device was given out twice."""
    claims = json.loads(await connection.ask("GET", f"{RESOURCE}/namespaces/default/resourceclaims"))["items"]
    held = [
        (result["pool"], result["device"])
        for claim in claims
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(held) == len(set(held)) == PODS, "a device was allocated twice, or a claim has none"


if __name__ == "__main__":
    main()
