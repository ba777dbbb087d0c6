"""API servers that are killed while clients write: no acknowledged write may be lost, and all histories are linearizable.

    python -m tests.faults.kills --kills 100 [--store sqlite|etcd]

On SQLite one server is killed again and again; on etcd two servers share it, and one of the three processes is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.e2e.processes import Process
from tests.faults.histories import INITIAL, Recorder, Target
from tests.faults.linearizable import UNKNOWN, violation
from tests.ports import free_port
from tests.store.etcd_process import Etcd

CLIENTS = 6
KEYS = 4
LIVES = 0.2, 1.0  # seconds of load between kills


@dataclass
class Victims:
    """API servers, where clients find them, and the etcd beneath them, if there is one."""

    servers: list[Process]
    targets: list[Target]
    etcd: Etcd | None = None

    def kill_one(self, dice: random.Random) -> None:
        """Kill a process and start it again."""
        victim = dice.choice([*self.servers, *([self.etcd] if self.etcd else [])])
        victim.kill()
        victim.start()


@contextmanager
def victims(place: Path, store: str) -> Iterator[Victims]:
    with ExitStack() as stack:
        etcd = None
        if store == "etcd":
            etcd = Etcd(place)
            etcd.start()
            stack.callback(etcd.kill)
        servers, targets = [], []
        for name in ("one", "two") if etcd else ("one",):
            url = f"etcd://{etcd.endpoint}" if etcd else "sqlite"
            options = ["--dir", place / name, "--store", url, "--port", str(free_port())]
            if name != "one":
                options += ["--keys-from", place / "one"]
            servers.append(stack.enter_context(Process(place / f"{name}.log", "apiserver", *options)))
            targets.append(Target(place / name / "kubeconfig"))
        yield Victims(servers, targets, etcd)


async def run(made: Victims, kills: int, dice: random.Random) -> tuple[Recorder, list[str]]:
    """Kill so many times under load; returns the histories, and what is wrong with them."""
    recorder = Recorder(lambda: made.targets, KEYS, dice)
    async with aiohttp.ClientSession() as session:
        await recorder.create(session)
        clients = [asyncio.create_task(recorder.work(session)) for _ in range(CLIENTS)]
        for _ in range(kills):
            await asyncio.sleep(dice.uniform(*LIVES))
            await asyncio.to_thread(made.kill_one, dice)
        await asyncio.sleep(LIVES[1])
        recorder.is_over = True
        await asyncio.gather(*clients)
        await recorder.read_all(session)
    findings = [
        f"{key}:\n{found}" for key, history in recorder.histories.items() if (found := violation(history, INITIAL))
    ]
    return recorder, findings


def summary(recorder: Recorder) -> str:
    operations = [operation for history in recorder.histories.values() for operation in history]
    open_ = sum(operation.outcome == UNKNOWN for operation in operations)
    return (
        f"{len(operations)} operations on {len(recorder.histories)} claims, {recorder.answered} writes acknowledged, "
        f"{open_} without an answer"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--store", choices=("sqlite", "etcd"), action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args(arguments)
    failed = False
    for store in args.store or ("sqlite", "etcd"):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dray-kills-") as place, victims(Path(place), store) as made:
            recorder, findings = asyncio.run(run(made, args.kills, random.Random(args.seed)))
        print(f"{store}: {args.kills} kills in {time.monotonic() - begun:.0f} s, seed {args.seed}: {summary(recorder)}")
        print(*findings or ["  every history is linearizable, so no acknowledged write is lost"], sep="\n", flush=True)
        failed = failed or bool(findings)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
