"""A cluster in which some pods ask for what takes minutes to find out: how well everybody else is served meanwhile.

`dray up` runs as a process of its own. Ordinary pods come and go over HTTPS, first alone, then while hostile pods wait:
eight with selectors that are as expensive as may be admitted, on two nodes with 512 devices each, then eight that are hard
to pack. Beside that `/readyz` is asked every 20 ms. Seconds are those of the wall; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from bench.apiserver import Connection, Server, serving
from dray.sim.hardware import CLASS

NODES = 100
WRITERS = 4  # clients that create ordinary pods
IN_FLIGHT = 20  # ordinary pods that wait for a node at the same time
HOSTILE = 8
DEVICES = 512  # of each of the two hostile nodes
ROOTS, ROOT = 4, 21  # devices that are hard to pack: so many roots, so many devices each
TURNS = 3  # of each kind, and as many alone
SECONDS = 5  # for a turn
PODS = "/api/v1/namespaces/default/pods"
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
TWENTY = list(range(20))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = ["up", "--nodes", str(NODES), "--devices", "8", "--disable-admission-plugins", "ResourceQuota"]
        with serving(Path(directory), *options) as server:
            uvloop.run(_figures(server))


async def _figures(server: Server) -> None:
    connection = await Connection(server, server.port).open()
    await _publish(connection)
    ordinary = Ordinary(server)
    await ordinary.open()
    await ordinary.replace(2)  # to warm up
    for kind, claims in (("expensive selectors", _expensive), ("hard to pack", _packing)):
        alone, beside = Measured(), Measured()
        for turn in range(TURNS):
            await _measure(server, ordinary, alone)
            names = [f"{kind.split()[0]}-{turn}-{number}" for number in range(HOSTILE)]
            for number, name in enumerate(names):
                await _create(connection, name, claims(number))
            await _measure(server, ordinary, beside)
            for name in names:
                await connection.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        print(f"{HOSTILE} pods wait, {kind}: {beside.line()}", flush=True)
        print(f"in turn with that, alone: {alone.line()}; {beside.rate / alone.rate:.0%} are left", flush=True)
    connection.close()


async def _create(connection: Connection, pod: str, claims: list[dict[str, Any]]) -> None:
    """A pod with claims for these devices."""
    for at, devices in enumerate(claims):
        body = {"metadata": {"name": f"{pod}-{at}"}, "spec": {"devices": devices}}
        await connection.ask("POST", CLAIMS, body)
    uses = [{"name": f"d{at}", "resourceClaimName": f"{pod}-{at}"} for at in range(len(claims))]
    await connection.ask("POST", PODS, _pod(pod, uses))


async def _publish(connection: Connection) -> None:
    template = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS}}]}}}
    body = {"metadata": {"name": "ordinary"}, "spec": template}
    await connection.ask("POST", f"{RESOURCE}/namespaces/default/resourceclaimtemplates", body)
    for kind, number in (("many", DEVICES), ("rooted", ROOTS * ROOT)):
        driver = f"{kind}.example.com"
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
        await connection.ask("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": kind}, "spec": spec})
        for node in json.loads(await connection.ask("GET", "/api/v1/nodes?limit=2"))["items"]:
            for slice_ in _slices(driver, node["metadata"]["name"], number):
                await connection.ask("POST", f"{RESOURCE}/resourceslices", slice_)


def _slices(driver: str, node: str, number: int) -> Iterator[dict[str, Any]]:
    devices = [{"name": f"d{at}", "attributes": {"root": {"int": at // ROOT}}} for at in range(number)]
    parts = [devices[at : at + 128] for at in range(0, number, 128)]
    pool = {"name": f"{node}-{driver}", "generation": 1, "resourceSliceCount": len(parts)}
    for at, part in enumerate(parts):
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": part}
        yield {"metadata": {"name": f"{node}-{driver}-{at}"}, "spec": spec}


def _expensive(number: int) -> list[dict[str, Any]]:
    """No device matches, and each takes a twentieth of a second to find that out."""
    body = f"a + b + c >= {number} || true"
    text = f"{TWENTY}.all(a, {TWENTY}.all(b, {TWENTY}.all(c, {body}))) && device.driver == 'none'"
    exactly = {"deviceClassName": "many", "selectors": [{"cel": {"expression": text}}]}
    return [{"requests": [{"name": "r", "exactly": exactly}]}]


def _packing(number: int) -> list[dict[str, Any]]:
    """Groups of even sizes, each within one root: there are enough devices, but one of each root is always left."""
    sizes = [8, 6, 4, 8, 6] * 2 + [6, 4, 4, 4]
    sizes = [*sizes[number:], *sizes[:number], 0]
    claims: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    for size in sizes:
        if not size or len(requests) == 4:
            names = [[request["name"]] for request in requests]
            constraints = [{"matchAttribute": "rooted.example.com/root", "requests": name} for name in names]
            claims.append({"requests": requests, "constraints": constraints})
            requests = []
        requests.append({"name": f"r{len(requests)}", "exactly": {"deviceClassName": "rooted", "count": size}})
    return claims


def _pod(name: str, claims: list[dict[str, str]]) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"claims": [{"name": claim["name"]} for claim in claims]}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}


class Measured:
    """What was counted in some turns."""

    def __init__(self) -> None:
        self.pods = 0
        self.seconds = 0.0
        self.answers: list[float] = []

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    def line(self) -> str:
        answers = sorted(self.answers)
        middle, late = answers[len(answers) // 2], answers[int(len(answers) * 0.99)]
        return (
            f"{self.rate:.0f} ordinary pods/s, /readyz p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms, "
            f"longest {answers[-1] * 1000:.0f} ms of {len(answers)}"
        )


async def _measure(server: Server, ordinary: Ordinary, measured: Measured) -> None:
    asking = asyncio.create_task(_ask(server, measured.answers))
    begun = time.perf_counter()
    measured.pods += await ordinary.replace(SECONDS)
    measured.seconds += time.perf_counter() - begun
    asking.cancel()


async def _ask(server: Server, answers: list[float]) -> None:
    connection = await Connection(server, server.port).open()
    while True:
        begun = time.perf_counter()
        await connection.ask("GET", "/readyz")
        answers.append(time.perf_counter() - begun)
        await asyncio.sleep(0.02)


class Ordinary:
    """Pods that come, get a device, and go."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bound: asyncio.Queue[str] = asyncio.Queue()
        self._count = 0

    async def open(self) -> None:
        self._writers = [await Connection(self._server, self._server.port).open() for _ in range(WRITERS)]
        self._watch = await Connection(self._server, self._server.port).open()
        version = json.loads(await self._writers[0].ask("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
        self._watch.send("GET", f"{PODS}?watch=true&resourceVersion={version}")
        self._watching = asyncio.create_task(self._note())

    async def _note(self) -> None:
        seen = set()
        while True:
            chunk = await self._watch.chunk()
            for line in chunk.splitlines():
                if line.startswith(b"{"):
                    pod = json.loads(line)["object"]
                    name = pod["metadata"]["name"]
                    if name.startswith("ordinary") and pod["spec"].get("nodeName") and name not in seen:
                        seen.add(name)
                        self._bound.put_nowait(name)

    async def replace(self, seconds: float) -> int:
        """How many pods got a node in this time, each replaced by another."""
        ends = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(self._replace(writer, ends) for writer in self._writers)))

    async def _replace(self, writer: Connection, ends: float) -> int:
        count = 0
        for _ in range(IN_FLIGHT // WRITERS):
            await self._create(writer)
        while time.perf_counter() < ends:
            await self._delete(writer, await self._bound.get())
            await self._create(writer)
            count += 1
        for _ in range(IN_FLIGHT // WRITERS):
            await self._delete(writer, await self._bound.get())
        return count

    async def _create(self, writer: Connection) -> None:
        self._count += 1
        uses = [{"name": "d", "resourceClaimTemplateName": "ordinary"}]
        await writer.ask("POST", PODS, _pod(f"ordinary-{self._count}", uses))

    async def _delete(self, writer: Connection, name: str) -> None:
        await writer.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
