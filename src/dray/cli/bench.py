"""`dray bench scheduling`: measure how fast this machine schedules pods with devices."""

from __future__ import annotations

import argparse
import asyncio
import platform
from statistics import harmonic_mean

from dray.cli import Subparsers, fail


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("bench", help="measure scheduled pods per second on this machine")
    parser.add_argument(
        "what", choices=["scheduling"], help="scheduling: pods per second, with all components in one process"
    )
    parser.add_argument("--nodes", type=int, default=500, help="number of simulated nodes (default: %(default)s)")
    parser.add_argument("--devices", type=int, default=10, help="devices per node (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=2500, help="pods per measurement (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import uvloop

    for name in ("nodes", "devices", "pods"):
        if getattr(args, name) < 1:
            return fail("bench", f"--{name}: expected a number from 1, got {getattr(args, name)}", 2)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_scheduling(args.nodes, args.devices, args.pods))
    return 0


async def _scheduling(nodes: int, devices: int, pods: int) -> None:
    """Measure and print the scheduling rates of several workloads."""
    from dray.benchmarks import scheduling as b

    print(f"# {nodes} nodes x {devices} devices, {pods} pods, Python {platform.python_version()}")
    room = min(pods, nodes * devices // 2)
    parts = await b.burst_into_half_full(nodes, devices, room)
    _line("burst into a half-full cluster", harmonic_mean(parts), f"(in parts: {', '.join(f'{r:.0f}' for r in parts)})")
    _line("steady state, one device", await b.steady_state(nodes, devices, pods, b.PLAIN))
    _line("steady state, with a selector", await b.steady_state(nodes, devices, pods, b.SELECTOR))
    _line("steady state, four devices that share a root", await b.steady_state(nodes, devices, pods, b.FIVE))
    _line("steady state, an extended resource", await b.steady_state(nodes, devices, pods, b.EXTENDED))
    _line("pods without claims", await b.burst_of(nodes, devices, pods, b.NO_CLAIMS))


def _line(what: str, rate: float, more: str = "") -> None:
    """Print the rate of one measurement."""
    print(f"{what:<45} {rate:8.0f} pods/s {more}".rstrip(), flush=True)
