"""A gang of 1,000 pods with a device each on 500 nodes: how long until all are bound, from the moment when the last pod
exists, and how much longer other pods wait meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import uvloop

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.benchmarks import scheduling as b

GATES = FeatureGates.of({"GenericWorkload": True})
NODES, DEVICES, SIZE = 500, 10, 1000
PAUSE = 0.02  # seconds between two single pods


async def figures() -> None:
    async with b.cluster(NODES, DEVICES, (b.PLAIN,), gates=GATES) as measured:
        alone = await _single_pods(measured, "alone", 50)
        await _group(measured, "gang", SIZE)
        beside = asyncio.create_task(_single_pods(measured, "beside", 100))
        bound = _bound(measured, "gang", SIZE)
        for number in range(SIZE):
            await measured.client.create(Pod, _pod("gang", number))
            if number % 10 == 9:
                await asyncio.sleep(0)
        began, worked = time.perf_counter(), time.process_time()
        await bound
        took, work = time.perf_counter() - began, time.process_time() - worked
        waits = await beside
        print(
            f"{SIZE} pods of a gang on {NODES} nodes: bound {took:.2f} s after the last one was created, with {work:.2f} s of "
            "processor time",
            flush=True,
        )
        print(f"single pods: alone at most {_longest(alone)}, beside the gang {_longest(waits)}", flush=True)


async def _group(measured: b.BenchmarkCluster, name: str, least: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    await measured.client.create(PodGroup, {"metadata": {"name": name, "namespace": b.NAMESPACE}, "spec": spec})


def _pod(group: str, number: int) -> dict[str, Any]:
    tree = b.PLAIN.pod(f"{group}-{number}")
    tree["spec"]["schedulingGroup"] = {"podGroupName": group}
    return tree


def _bound(measured: b.BenchmarkCluster, prefix: str, number: int) -> asyncio.Future[None]:
    """Done when so many pods of this name have nodes."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    names: set[str] = set()

    def note(deltas: Any) -> None:
        names.update(
            new.metadata.name
            for _, new in deltas
            if new is not None and new.spec.nodeName and new.metadata.name.startswith(f"{prefix}-")
        )
        if len(names) >= number and not done.done():
            done.set_result(None)

    measured.informers.informer(Pod).add_handler(note)
    return done


def _longest(waits: list[tuple[float, float]]) -> str:
    longest, work = (max(column) * 1000 for column in zip(*waits, strict=True))
    return f"{longest:.0f} ms ({work:.0f} ms of processor time)"


async def _single_pods(measured: b.BenchmarkCluster, name: str, count: int) -> list[tuple[float, float]]:
    """Seconds that pods which come one after the other wait for a node, and of processor time in between."""
    waits = []
    for number in range(count):
        began, worked = time.perf_counter(), time.process_time()
        bound = _bound(measured, f"{name}-{number}", 1)
        await measured.client.create(Pod, b.PLAIN.pod(f"{name}-{number}-x"))
        await bound
        waits.append((time.perf_counter() - began, time.process_time() - worked))
        await asyncio.sleep(PAUSE)
    return waits


def main() -> None:
    logging.getLogger("dray").setLevel(logging.ERROR)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(figures())
