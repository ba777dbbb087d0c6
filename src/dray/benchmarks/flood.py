"""Benchmark of how much a node that constantly republishes its devices slows down scheduling on other nodes.

Rounds with and without the flood alternate on one cluster, measured in processor time, so both see the same
conditions. Meanwhile, pods may wait for devices that do not exist, which every slice update could provide. Results
are only measured, not judged.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.benchmarks.scheduling import PLAIN, BenchmarkCluster, BenchmarkWorkload, cluster, one
from dray.sim.hardware import DRIVER, node_name, slice_trees

ROUNDS = 16  # rounds of each kind; a single round varies by a tenth
_NOWHERE = BenchmarkWorkload("nowhere", (one(selector=f'device.attributes["{DRIVER}"].model == "none"'),))
_SHORT = 3  # number of devices that appear and disappear


@dataclass(frozen=True)
class Flood:
    """A driver that rewrites its node's slice `rate` times per second; with None, after every answered write."""

    rate: float | None
    # whether each write is a new pool generation with changing devices; otherwise only an attribute changes
    regenerate: bool = False


@dataclass(frozen=True)
class Slowdown:
    """Pods per second without and with the flood, and slice updates per second."""

    alone: float
    flooded: float
    updates: float
    part: float  # relative slowdown (0.1 is a tenth): median over pairs of rounds


class _Driver:
    """The flooding driver: writes slices of the first node until cancelled."""

    def __init__(self, measured: BenchmarkCluster, flood: Flood, slice_: dict[str, Any]) -> None:
        self._client = measured.client
        self._flood = flood
        self._name: str = slice_["metadata"]["name"]
        self._contents = self._changing(slice_["spec"])
        self.updates = 0

    def _changing(self, spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
        devices = spec["devices"]
        for number in itertools.count(2):
            if self._flood.regenerate:
                yield {"devices": devices[number % 2 * _SHORT :], "pool": {**spec["pool"], "generation": number}}
            else:
                first = {**devices[0], "attributes": {**devices[0]["attributes"], "temperature": {"int": number}}}
                yield {"devices": [first, *devices[1:]]}

    async def run(self) -> None:
        pause = 1 / self._flood.rate if self._flood.rate else 0.0
        due = time.process_time()
        while True:
            await self._client.patch(ResourceSlice, self._name, {"spec": next(self._contents)})
            self.updates += 1
            due += pause
            await asyncio.sleep(max(0.0, due - time.process_time()))


async def slowdown(nodes: int, devices: int, pods: int, flood: Flood, waiting: int = 0) -> Slowdown:
    """Schedule pods in rounds, alternately without and with the flood, while `waiting` pods lack devices."""
    async with cluster(nodes, devices, (PLAIN, _NOWHERE)) as measured:
        for _ in range(waiting):
            await measured.create(_NOWHERE)
        await measured.steady(PLAIN, pods)  # warm
        node = await measured.client.get(Node, node_name(0))
        driver = _Driver(measured, flood, slice_trees(0, devices, node.metadata.uid)[0])
        rounds: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            before = await _seconds(measured, pods)
            task = asyncio.create_task(driver.run())
            rounds.append((before, await _seconds(measured, pods)))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        alone, flooded = map(sum, zip(*rounds, strict=True))
        part = median(1 - before / during for before, during in rounds)
        total = pods * ROUNDS
        return Slowdown(total / alone, total / flooded, driver.updates / flooded, part)


async def _seconds(measured: BenchmarkCluster, pods: int) -> float:
    """Return the processor time of one round."""
    started = time.process_time()
    await measured.steady(PLAIN, pods)
    return time.process_time() - started
