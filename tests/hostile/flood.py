"""`make flood`: one owner asks for 30,000 pods and goes again, beside JSON Patch copy bombs and an honest client.

A real cluster of simulated nodes on loopback, whose event loop is measured turn by turn (`turns`). An editor creates a Job
and then a Deployment that want more pods than there is room for, and deletes each when the pods are there. Meanwhile the
editor sends a hundred copy bombs a second, and an honest client reads and writes. Ends with status 1 if a turn used more
than 20 ms of processor time, if the honest client's 99th percentile was 250 ms or more, or if the memory that the server
uses did not come back to within 20 % of what it was: the blocks of Python's allocator and the bytes of the C library's. How
much is resident is printed: it contains what both keep for the next flood. Left out: the other attacks (`attack`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.cli.running import Dray
from tests.hostile.attack import Client, Honest, honest_client, memory, prepare
from tests.hostile.attackers import PODS, USERS
from tests.hostile.attacks import Attacker, copy_bomb

PODS_WANTED = 30_000
LONGEST_TURN = 0.020
SLOWEST_SECONDS = 0.25
MORE_MEMORY = 0.20
BOMBS_PER_SECOND = 100
_PODS_TO_WARM_UP = 20
_DEADLINE_SECONDS = 900.0  # for creating or deleting all pods of an owner
_REST_SECONDS = (
    360.0  # before memory is compared: what was superseded is kept for five minutes, for watches that resume
)
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def owner(kind: str, count: int) -> tuple[str, Any]:
    """Where an owner of that many pods is created, and how."""
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "app"}]}
    if kind == "job":
        # No node has this label: a pod that could run and end would let the job want fewer.
        template = {"spec": {**spec, "restartPolicy": "Never", "nodeSelector": {"flood": "none"}}}
        return _JOBS, {"metadata": {"name": "flood"}, "spec": {"parallelism": count, "template": template}}
    labels = {"app": "flood"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    wanted = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    return _DEPLOYMENTS, {"metadata": {"name": "flood"}, "spec": wanted}


async def flood(attacker: Attacker, client: Client, kind: str, count: int) -> None:
    """Create an owner as an editor, wait for its pods, delete it, and wait until they are gone."""
    path, tree = owner(kind, count)
    began = time.monotonic()
    code = await attacker.ask("editor", "POST", path, tree)
    assert code == "201", code
    most = await until(client, lambda there: there >= count)
    print(f"  {kind}: {most} pods after {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    await attacker.ask("editor", "DELETE", f"{path}/flood?propagationPolicy=Background")
    left = await until(client, lambda there: there == 0)
    print(f"  {kind}: {left} pods left after {time.monotonic() - began:.0f} s", flush=True)


async def until(client: Client, enough: Any) -> int:
    """Wait for a number of pods of the flood; returns how many there are then."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        there = await pods(client)
        if enough(there) or time.monotonic() > deadline:
            return there
        await asyncio.sleep(1)


async def pods(client: Client) -> int:
    """The pods of the default namespace but those of the honest client, which are few."""
    _, page = await client.ask("GET", f"{PODS}?limit=1")
    names = [item["metadata"]["name"] for item in page["items"]]
    if names and not names[0].startswith("flood"):  # the honest client's come later in the alphabet
        return 0
    return len(names) + int(page["metadata"].get("remainingItemCount", 0)) if names else 0


async def bombs(url: str, authority: str, rate: int, operations: int, parent: int) -> None:
    """The process of the attacker: sends copy bombs at a steady pace, until its parent is gone or ends it."""
    attacker = Attacker(url, authority, 0)
    body = copy_bomb(operations)
    answers: Counter[str] = Counter()
    under_way: set[asyncio.Task[None]] = set()

    async def send() -> None:
        try:
            answers[
                await attacker.ask(
                    "editor", "PATCH", f"{PODS[:-4]}configmaps/c1", body, content_type="application/json-patch+json"
                )
            ] += 1
        except (aiohttp.ClientError, OSError, TimeoutError):
            answers["closed"] += 1

    due = time.monotonic()
    while os.getppid() == parent:
        if len(under_way) < 4 * rate:  # a slow server is not flooded with connections as well
            task = asyncio.create_task(send())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        due = max(due + 1 / rate, time.monotonic() - 5 / rate)  # what was missed is not made up for all at once
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if sum(answers.values()) % rate == 0:
            print(json.dumps(answers), flush=True)


@dataclass(frozen=True)
class MemoryOfServer:
    """What is in use: thousands of blocks of Python's allocator, and MiB of malloc; and MiB that are resident."""

    blocks: float = 0.0
    malloc: float = 0.0
    resident: float = 0.0

    @classmethod
    def of(cls, pid: int, record: Path) -> MemoryOfServer:
        in_use = json.loads(Path(f"{record}.memory").read_text())
        return cls(in_use["blocks"] / 1000, in_use["malloc"], memory(pid))

    def __str__(self) -> str:
        return f"{self.blocks:.0f} thousand blocks and {self.malloc:.0f} MiB in use, {self.resident:.0f} MiB resident"

    def has_grown(self, before: MemoryOfServer) -> bool:
        most = 1 + MORE_MEMORY
        return self.blocks > before.blocks * most or self.malloc > before.malloc * most


@dataclass
class FloodReport:
    turns: list[dict[str, Any]] = field(default_factory=list)
    seen: Honest = field(default_factory=Honest)
    before: MemoryOfServer = MemoryOfServer()
    after: MemoryOfServer = MemoryOfServer()
    answers: str = ""

    def problems(self) -> list[str]:
        found = []
        if long := [turn["seconds"] for turn in self.turns if turn["seconds"] > LONGEST_TURN]:
            found.append(
                f"{len(long)} turns of the event loop used more than 20 ms, the longest {1000 * max(long):.0f} ms"
            )
        if (p99 := self.seen.percentile(0.99)) >= SLOWEST_SECONDS:
            found.append(f"the honest client's p99 was {1000 * p99:.0f} ms")
        if self.after.has_grown(self.before):
            found.append(f"memory grew from {self.before} to {self.after}")
        if self.seen.failures:
            found.append(f"the honest client's failures: {dict(self.seen.failures)}")
        return found


async def measure(
    client: Client, url: str, authority: str, pid: int, record: Path, options: argparse.Namespace
) -> FloodReport:
    report = FloodReport()
    await prepare(client)
    await warm_up(client, url, authority, options.kinds)
    await asyncio.sleep(12)  # free memory is given back every ten seconds
    report.before = MemoryOfServer.of(pid, record)
    print(f"memory before: {report.before}", flush=True)
    arguments = ["-m", "tests.hostile.flood", "--bombs", url, authority, "--operations", str(options.operations)]
    sender = await asyncio.create_subprocess_exec(
        "nice", "-n", "5", sys.executable, *arguments, "--rate", str(options.rate), stdout=asyncio.subprocess.PIPE
    )
    attacker = Attacker(url, authority, 0)
    began = time.time()
    ends = asyncio.Event()
    honest = asyncio.create_task(honest_until(client, ends, report.seen))
    try:
        for kind in options.kinds.split(","):
            await flood(attacker, client, kind, options.pods)
            print(f"  memory: {MemoryOfServer.of(pid, record)}", flush=True)
    finally:
        ends.set()
        await honest
        sender.terminate()
        output, _ = await sender.communicate()
        report.answers = output.decode().strip().rpartition("\n")[2]
        await attacker.aclose()
    waited = 0.0
    while waited < options.rest:
        await asyncio.sleep(10)
        waited += 10
        report.after = MemoryOfServer.of(pid, record)
        print(f"  memory after {waited:.0f} s of rest: {report.after}", flush=True)
    report.turns = [turn for turn in recorded(record) if turn["at"] > began]
    return report


async def warm_up(client: Client, url: str, authority: str, kinds: str) -> None:
    """Do all that is done later once with few pods: what is made at the first use only does not come from the flood."""
    await honest_client(client, time.monotonic() + 5, Honest())
    attacker = Attacker(url, authority, 0)
    try:
        for kind in kinds.split(","):
            await flood(attacker, client, kind, _PODS_TO_WARM_UP)
    finally:
        await attacker.aclose()


def recorded(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


async def honest_until(client: Client, ends: asyncio.Event, seen: Honest) -> None:
    while not ends.is_set():
        await honest_client(client, time.monotonic() + 2, seen)


def print_report(report: FloodReport, most: int) -> int:
    seen = report.seen
    p50, p99, longest = (1000 * seen.percentile(share) for share in (0.5, 0.99, 1))
    print(f"honest client: {len(seen.seconds)} requests, p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {longest:.0f} ms")
    print(f"  failures: {dict(seen.failures) or 'none'}; pods scheduled: {seen.scheduled} of {seen.pods}")
    print(f"copy bombs: {report.answers or 'none'}")
    print(f"memory before: {report.before}\nmemory after: {report.after}")
    long = [turn for turn in report.turns if turn["seconds"] > LONGEST_TURN]
    print(f"turns: {len(report.turns)} above 10 ms, {len(long)} above 20 ms")
    for turn in sorted(long, key=lambda turn: -turn["seconds"])[:most]:
        print(f"  {1000 * turn['seconds']:.0f} ms, {1000 * turn['collector']:.0f} ms of it the garbage collector")
        for stack in turn["stacks"][:: max(1, len(turn["stacks"]) // 4)]:
            print(f"    {' < '.join(stack[:6])}  [{stack[-1]}]")
    problems = report.problems()
    print("\n".join(f"PROBLEM: {problem}" for problem in problems) or "no problem found")
    return 1 if problems else 0


async def main(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        (directory / "users.csv").write_text(USERS)
        record = Path(options.record) if options.record else directory / "turns.jsonl"
        up = ["up", "--dir", directory / "d", "--port", "0", "--nodes", "3", "--store", options.store]
        program = [sys.executable, "-m", "tests.hostile.turns", str(record)]
        with Dray(*up, "--token-auth-file", directory / "users.csv", program=program, log=directory / "log") as dray:
            url = next(word for line in dray.lines for word in line.split() if word.startswith("https://")).rstrip(",")
            authority, token = str(directory / "d" / "ca.crt"), (directory / "d" / "admin.token").read_text().strip()
            client = Client(url, authority, token)
            try:
                report = await measure(client, url, authority, dray.process.pid, record, options)
            finally:
                await client.session.close()
    return print_report(report, options.show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS_WANTED)
    parser.add_argument("--kinds", default="job,deployment")
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--rate", type=int, default=BOMBS_PER_SECOND, help="copy bombs a second (%(default)s)")
    parser.add_argument("--operations", type=int, default=41, help="of a copy bomb (%(default)s)")
    parser.add_argument("--rest", type=float, default=_REST_SECONDS, help="seconds before memory is compared")
    parser.add_argument("--record", default="", help="keep the long turns in this file")
    parser.add_argument("--show", type=int, default=10, help="turns that are shown with what ran (%(default)s)")
    parser.add_argument("--bombs", nargs=2, metavar=("URL", "AUTHORITY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.bombs:
        asyncio.run(bombs(*chosen.bombs, chosen.rate, chosen.operations, os.getppid()))
    else:
        sys.exit(asyncio.run(main(chosen)))
