"""Pods a second, in process: at 500 and 5,000 nodes, with alternatives, and while one node floods the cluster with
updates of its slice; and how soon a waiting pod reacts."""

from __future__ import annotations

import asyncio
import logging
from statistics import harmonic_mean

import uvloop

from dray.benchmarks import scheduling as b
from dray.benchmarks.flood import Flood, slowdown


async def figures() -> None:
    for nodes in (500, 5000):
        parts = await b.burst_into_half_full(nodes, 10, 1500)
        burst = f"{harmonic_mean(parts):.0f} pods/s ({', '.join(f'{rate:.0f}' for rate in parts)} in parts)"
        steady = await b.steady_state(nodes, 10, 1500, b.PLAIN)
        print(f"{nodes} nodes: burst into half-full {burst}, steady {steady:.0f} pods/s", flush=True)
    for workload in (b.SELECTOR, b.FIVE, b.NO_CLAIMS):
        print(f"steady, {workload.name}: {await b.steady_state(500, 10, 1000, workload):.0f} pods/s", flush=True)
    for number in (1, 2, 4, 8):
        workload = b.BenchmarkWorkload(f"alternatives-{number}", (b.alternatives(number),))
        print(
            f"{number} alternatives, the last one fits: {await b.burst_of(500, 10, 1000, workload):.0f} pods/s",
            flush=True,
        )
    for what, seconds in (await b.reactions(50)).items():
        middle, late = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
        print(f"waiting for {what}: p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms", flush=True)
    for waiting in (200, 2000):
        rate = await b.replacements(waiting, 200)
        print(f"full cluster, {waiting} like pods waiting: {rate:.0f} pods/s take the place of others", flush=True)
    await floods()


async def floods() -> None:
    for flood in (Flood(50), Flood(50, regenerate=True), Flood(None), Flood(None, regenerate=True)):
        for waiting in (0, 500):
            s = await slowdown(500, 10, 250, flood, waiting)
            what = "new generations" if flood.regenerate else "new attributes"
            print(
                f"flood of slice updates from one node ({what}, {flood.rate or 'as many as it can'} a second), "
                f"{waiting} pods waiting: {s.updates:.0f} updates/s, {s.flooded:.0f} of {s.alone:.0f} pods/s without "
                f"({-s.part:+.0%})",
                flush=True,
            )


def main() -> None:
    logging.getLogger("dray").setLevel(logging.ERROR)  # pods that wait for what is missing are the point here
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(figures())
