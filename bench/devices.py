"""Pods a second with partitions, with shares and with extended resources, beside plain devices in the same cluster.

The kinds take turns, so that whatever else the machine does meets all of them; a ratio is the median over the turns.
"""

from __future__ import annotations

import asyncio
import logging
from statistics import median
from typing import Any

import uvloop

from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.benchmarks import scheduling as b
from dray.sim.hardware import node_name

TURNS = 5
PODS = 300  # a turn
PARTITIONED, SHARED = "mig.example.com", "nic.example.com"
GPUS = 2  # a node, in seven small partitions, two halves or one whole each
NICS = 2


def partition(gpu: int, profile: str, number: int, memory: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{gpu}-{profile}-{number}",
        "attributes": {"profile": {"string": profile}},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": f"{memory}Gi"}}}],
    }


def partitions(gpu: int) -> list[dict[str, Any]]:
    small = [partition(gpu, "small", at, 10) for at in range(7)]
    return [*small, *(partition(gpu, "half", at, 40) for at in range(2)), partition(gpu, "whole", 0, 80)]


def slices(node: int) -> list[dict[str, Any]]:
    name = node_name(node)

    def tree(suffix: str, driver: str, count: int, **spec: Any) -> dict[str, Any]:
        pool = {"name": name, "generation": 1, "resourceSliceCount": count}
        return {
            "metadata": {"name": f"{name}-{suffix}"},
            "spec": {"driver": driver, "nodeName": name, "pool": pool, **spec},
        }

    sets = [{"name": f"gpu-{gpu}", "counters": {"memory": {"value": "80Gi"}}} for gpu in range(GPUS)]
    nics = [
        {"name": f"nic-{at}", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "100G"}}}
        for at in range(NICS)
    ]
    return [
        tree("counters", PARTITIONED, 2, sharedCounters=sets),
        tree("partitions", PARTITIONED, 2, devices=[one for gpu in range(GPUS) for one in partitions(gpu)]),
        tree("nics", SHARED, 1, devices=nics),
    ]


def asking(name: str, class_: str, **exactly: Any) -> b.BenchmarkWorkload:
    return b.BenchmarkWorkload(name, ({"name": "r", "exactly": {"deviceClassName": class_, **exactly}},))


SMALL = {"cel": {"expression": f'device.attributes["{PARTITIONED}"].profile == "small"'}}
WORKLOADS = (
    b.PLAIN,
    asking("partitions", PARTITIONED, selectors=[SMALL]),
    asking("shares", SHARED, capacity={"requests": {"bandwidth": "1G"}}),
    b.EXTENDED,
)


async def publish(measured: b.BenchmarkCluster, nodes: int) -> None:
    for driver in (PARTITIONED, SHARED):
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        await measured.client.create(DeviceClass, {"metadata": {"name": driver}, "spec": {"selectors": [selector]}})
    for number in range(nodes):
        for tree in slices(number):
            await measured.client.create(ResourceSlice, tree)


async def compare(nodes: int, turns: int = TURNS, pods: int = PODS) -> dict[str, list[float]]:
    """Pods a second of each kind, turn by turn."""
    async with b.cluster(nodes, 10, WORKLOADS) as measured:
        await publish(measured, nodes)
        rates: dict[str, list[float]] = {workload.name: [] for workload in WORKLOADS}
        for turn in range(turns + 1):
            for workload in WORKLOADS:
                rate = await measured.burst(workload, pods if turn else 50)
                if turn:  # the first is to get warm
                    rates[workload.name].append(rate)
        return rates


async def figures() -> None:
    for nodes in (500, 5000):
        rates = await compare(nodes)
        plain = rates[b.PLAIN.name]
        for name, found in rates.items():
            ratio = median(rate / beside for rate, beside in zip(found, plain, strict=True))
            print(f"{nodes} nodes, {name}: {median(found):.0f} pods/s, {ratio:.2f} of plain devices", flush=True)


def main() -> None:
    logging.getLogger("dray").setLevel(logging.ERROR)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(figures())
