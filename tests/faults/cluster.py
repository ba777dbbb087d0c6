"""A cluster on three etcd members whose processes can be killed and paused, and whose connections can be cut.

Two API servers, each with links of its own to the members; two schedulers, two controller managers and the simulated nodes,
each with a link that leads to either API server. Members of etcd are ended and not killed: etcd 3.5.0 to 3.5.2, which tests
have, may apply a transaction on some members only if it is killed, after which the members differ for ever. Left out: what the cluster is asked to do (`workload`).
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.client.proxy import Proxy
from tests.e2e.processes import Process
from tests.ports import free_port
from tests.store.etcd_process import Etcd

MEMBERS = ("one", "two", "three")
DEVICES = 2
DOWN = 0.0, 3.0  # seconds until a process that was killed is started again
AWAY = (0.5, 4.0), (4.0, 20.0)  # seconds of a pause or a cut: mostly short, sometimes longer than a leader's lease
LONG = 0.15  # how often it is long
QUIET = 0.5, 4.0  # seconds between two faults of one kind of process


@dataclass
class Victim:
    """A process, and its links to what it depends on."""

    kind: str
    process: Process | Etcd
    links: list[Proxy] = field(default_factory=list)

    async def suffer(self, dice: random.Random) -> str:
        """Go through one fault and be well again; returns what it was."""
        fault = dice.choice(["killed", "paused", "cut off"] if self.links else ["ended", "paused"])
        if fault in ("killed", "ended"):
            end = self.process.end if isinstance(self.process, Etcd) else self.process.kill
            await asyncio.to_thread(end)
            await asyncio.sleep(dice.uniform(*DOWN))
            await self._start_again()
            return fault
        seconds = dice.uniform(*AWAY[dice.random() < LONG])
        if fault == "paused":
            self.process.signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.process.signal(signal.SIGCONT)
        else:
            for link in self.links:
                link.cut()
            await asyncio.sleep(seconds)
            for link in self.links:
                link.mend()
        return fault

    async def _start_again(self) -> None:
        """Start the process, again and again while what it depends on is away."""
        if isinstance(self.process, Etcd):
            self.process.start(wait=False)
            return
        while True:
            try:
                await asyncio.to_thread(self.process.start)
                return
            except AssertionError:
                await asyncio.to_thread(self.process.kill)


@dataclass
class FaultyCluster:
    """The processes, and where clients reach the API servers."""

    place: Path
    victims: list[Victim]
    url: str  # of either API server
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def kubeconfig(self) -> Path:
        return self.place / "one" / "kubeconfig"

    async def disturb(self, dice: random.Random, is_over: asyncio.Event) -> None:
        """Let members of etcd and other processes suffer, side by side, until it is over."""
        members = [victim for victim in self.victims if victim.kind == "etcd member"]
        others = [victim for victim in self.victims if victim not in members]
        await asyncio.gather(*(self._disturb(among, dice, is_over) for among in (members, others)))

    async def _disturb(self, among: list[Victim], dice: random.Random, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            chosen = dice.sample(among, 2 if dice.random() < LONG else 1)  # two members are a majority
            for victim, fault in zip(chosen, await asyncio.gather(*(one.suffer(dice) for one in chosen)), strict=True):
                self.faults[f"{victim.kind} {fault}"] += 1
            if len(chosen) > 1:
                self.faults[f"two of kind {chosen[0].kind}" if among[0].kind == "etcd member" else "two at once"] += 1
            await asyncio.sleep(dice.uniform(*QUIET))

    @property
    def endpoints(self) -> list[str]:
        return [one.process.endpoint for one in self.victims if isinstance(one.process, Etcd)]

    def tracebacks(self) -> list[str]:
        """The processes that complained about something that nobody had foreseen."""
        logs = [victim.process for victim in self.victims if isinstance(victim.process, Process)]
        return [text for process in logs if "Traceback" in (text := process.complaints())]


@asynccontextmanager
async def faulty_cluster(place: Path, nodes: int) -> AsyncIterator[FaultyCluster]:
    async with AsyncExitStack() as stack:
        members = [Etcd(place, name=name) for name in MEMBERS]
        for member in members:
            member.join(members)
            stack.callback(member.kill)
            member.start(wait=False)
        for member in members:
            await asyncio.to_thread(member.wait)
        victims = [Victim("etcd member", member) for member in members]
        servers = []
        for name in ("one", "two"):
            links = [await _link(stack, f"http://{member.endpoint}") for member in members]
            store = "etcd://" + ",".join(url.removeprefix("http://") for _, url in links)
            port = str(free_port())
            options = ["--dir", place / name, "--store", store, "--port", port, "--shutdown-delay", "0"]
            if name != "one":
                options += ["--keys-from", place / "one"]
            process = await _started(stack, place, name, "apiserver", *options)
            victims.append(Victim("API server", process, [link for link, _ in links]))
            servers.append(f"https://127.0.0.1:{port}")
        simulated = ("--simulated", str(nodes), "--devices", str(DEVICES), "--untainted")
        parts = [("scheduler", ()), ("controller-manager", ()), ("node", simulated)]
        for name, more in [*parts, *parts[:2]]:
            link, url = await _link(stack, *servers)
            config = _kubeconfig(place / "one" / "kubeconfig", url)
            options = ["--kubeconfig", config, "--port", "-1", *more]
            process = await _started(stack, place, config.stem, name, *options)
            victims.append(Victim(name, process, [link]))
        _, url = await _link(stack, *servers)
        yield FaultyCluster(place, victims, url.replace("http:", "https:"))


async def _link(stack: AsyncExitStack, *targets: str) -> tuple[Proxy, str]:
    link = Proxy(*targets)
    url = await link.start()
    stack.push_async_callback(link.stop)
    return link, url


async def _started(stack: AsyncExitStack, place: Path, log: str, *command: str | Path) -> Process:
    process = Process(place / f"{log}.log", *command)
    await asyncio.to_thread(process.start)
    stack.callback(process.__exit__)
    return process


def _kubeconfig(original: Path, url: str) -> Path:
    """A copy that leads to another address."""
    tree = yaml.safe_load(original.read_text())
    tree["clusters"][0]["cluster"]["server"] = url.replace("http:", "https:")
    copy = original.with_name(f"part-{url.rpartition(':')[2]}.yaml")
    copy.write_text(yaml.safe_dump(tree))
    return copy
