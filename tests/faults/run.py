"""A cluster on three etcd members under load while its processes are killed, paused and cut off at random.

    python -m tests.faults.run [--seconds 600] [--nodes 500] [--rate 20] [--seed N]

Afterwards: every acknowledged write is there, the watch of claims lost and repeated nothing and never saw a device with two
holders, histories of claims are linearizable, all pods run, and once they are deleted nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp

from dray.client.config import load
from dray.client.http import Http
from dray.store import EtcdLog
from tests.faults.cluster import DEVICES, FaultyCluster, faulty_cluster
from tests.faults.histories import INITIAL, Recorder, Target
from tests.faults.linearizable import violation
from tests.faults.workload import ClaimWatch, Workload, settled

REGISTERS = 3
REGISTER_CLIENTS = 3
REGISTER_PAUSE = (
    0.05  # seconds between two operations of a client, since checking a history takes longer the longer it is
)
SETTLES = 180.0  # seconds until all runs, and until all is gone; a lease of a leader that was killed takes 15 of them


@dataclass
class Report:
    """What happened, and what should not have."""

    lines: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


async def run(place: Path, *, seconds: float, nodes: int, rate: float, dice: random.Random) -> Report:
    async with faulty_cluster(place, nodes) as cluster:
        config = replace(load(str(cluster.kubeconfig)), server=cluster.url)
        async with Http(config) as client, aiohttp.ClientSession() as session:
            workload, watch = Workload(client, nodes * DEVICES, dice), ClaimWatch(client)
            targets = [Target(cluster.kubeconfig, cluster.url)]
            recorder = Recorder(lambda: targets, REGISTERS, dice)
            await workload.prepare(nodes)
            await recorder.create(session)
            following = asyncio.create_task(watch.run())
            is_over = asyncio.Event()
            clients = [asyncio.create_task(recorder.work(session, REGISTER_PAUSE)) for _ in range(REGISTER_CLIENTS)]
            working = asyncio.create_task(workload.run(rate, is_over))
            disturbing = asyncio.create_task(cluster.disturb(dice, is_over))
            await asyncio.sleep(seconds)
            is_over.set()
            recorder.is_over = True
            await asyncio.gather(disturbing, working, *clients)
            await recorder.read_all(session)
            report = await _judge(cluster, workload, watch, recorder)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return report


async def _judge(cluster: FaultyCluster, workload: Workload, watch: ClaimWatch, recorder: Recorder) -> Report:
    report = Report()
    begun = time.monotonic()
    report.findings += await settled(workload.wrong, SETTLES)
    kept = len(workload.created) - len(workload.deleted)
    report.lines.append(f"{kept} pods that were left ran {time.monotonic() - begun:.0f} s after the last fault")
    await workload.delete_all()
    registers = set(recorder.histories)
    report.findings += await settled(lambda: workload.orphans(registers), SETTLES)
    report.findings += await settled(watch.missed, SETTLES)
    report.findings += watch.findings
    report.findings += [
        f"{key} is not linearizable:\n{found}"
        for key, history in recorder.histories.items()
        if (found := violation(history, INITIAL))
    ]
    report.findings += cluster.tracebacks()
    report.findings += [f"{key} is still held" for key in await _holds(cluster)]
    faults = ", ".join(f"{fault} {times} times" for fault, times in sorted(cluster.faults.items()))
    report.lines.append(f"survived: {faults}")
    report.lines.append(
        f"{len(workload.created)} pods created, {len(workload.deleted)} deleted, {recorder.answered} writes of "
        f"{len(registers)} claims acknowledged, {watch.events} events of claims in {watch.streams} watches"
    )
    return report


async def _holds(cluster: FaultyCluster) -> list[str]:
    """What the store notes about devices that are in use."""
    log = await EtcdLog.open(cluster.endpoints)
    try:
        return [version.key for version in (await log.load()).versions if version.key.startswith("deviceholds/")]
    finally:
        await log.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rate", type=float, default=20.0, help="pods per second")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args(arguments)
    print(f"{args.seconds:g} s, {args.nodes} nodes, {args.rate:g} pods/s, seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="dray-faults-") as place:
        dice = random.Random(args.seed)
        report = asyncio.run(run(Path(place), seconds=args.seconds, nodes=args.nodes, rate=args.rate, dice=dice))
    print(*report.lines, *(report.findings or ["nothing was lost, held twice, repeated or left over"]), sep="\n")
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
