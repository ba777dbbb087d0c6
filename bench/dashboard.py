"""What an open dashboard costs: bytes and time to the first picture, how late changes are, and the server's time.

A real `dray up` in a process of its own, and a page without a browser in this one, over HTTPS on this machine. The first
page of a server waits for its picture to be made; further ones share it. The cost of a page is what the server's process
takes more of a core while 200 pods a second with a claim each come, get a device and go. What a page costs the browser is
measured in Chromium, where that is installed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
from playwright.async_api import Browser, async_playwright

from bench._browser import ARGUMENTS, CHROMIUM, LIVE, LONG_TASKS, SCROLL, WATCH, Scrolling
from dray.api.errors import ApiError
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.benchmarks.scheduling import NAMESPACE, PLAIN
from dray.client.config import from_kubeconfig
from dray.client.http import Http
from dray.sim.hardware import CLASS

NODES = (500, 5000)
DEVICES = 8
PODS_A_SECOND = 200
LIFE_SECONDS = 0.5  # of a pod
WARM_SECONDS, SECONDS = 3.0, 10.0
ROUNDS = 3
CHANGES = 40
_TICKS = os.sysconf("SC_CLK_TCK")


class First(NamedTuple):
    """The first picture of a page."""

    seconds: float
    bytes: int


class Server:
    """A cluster in another process."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path, address: str) -> None:
        self.process = process
        self.client = Http(from_kubeconfig(str(directory / "kubeconfig")))
        self.base, _, self.code = address.partition("#code=")
        self.origin = self.base.removesuffix("/dashboard/")

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@asynccontextmanager
async def server(nodes: int) -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="dray-") as name:
        options = ["--dir", name, "--store", "memory", "--port", "0", "--nodes", str(nodes), "--devices", str(DEVICES)]
        command = [sys.executable, "-m", "dray", "up", *options]
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=nowhere)
        assert process.stdout is not None
        address = ""
        try:
            while (line := (await process.stdout.readline()).decode()) != "ready\n":
                address = line.split()[-1] if "#code=" in line else address
                if not line:
                    raise RuntimeError("the server did not start")
            running = Server(process, Path(name), address)
            async with running.client:
                await _published(running.client, nodes)
                yield running
        finally:
            process.terminate()
            await process.wait()


async def _published(client: Http, nodes: int) -> None:
    """Wait until every node has published its devices."""
    left = nodes
    while left > 1:
        await asyncio.sleep(0.2)
        page = await client.list(ResourceSlice, limit=1)
        left = nodes - (page.remaining or 0)


@asynccontextmanager
async def window(running: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """A browser that has signed in."""
    jar, plain = aiohttp.CookieJar(unsafe=True), aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(cookie_jar=jar, connector=plain) as session:
        headers = {"Origin": running.origin}
        async with session.post(f"{running.base}api/session", json={"code": running.code}, headers=headers) as answer:
            answer.raise_for_status()
        yield session


async def first_picture(running: Server, session: aiohttp.ClientSession) -> First:
    started, size, tail = time.perf_counter(), 0, b""
    async with session.get(f"{running.base}api/stream") as answer:
        while b"event: ready" not in tail:
            chunk = await answer.content.readany()
            size += len(chunk)
            tail = tail[-20:] + chunk
        return First(time.perf_counter() - started, size)


async def load(client: Http, seconds: float) -> int:
    """Pods that come at a steady rate, each gone after a while; how many there were."""
    ends, made, tasks = time.monotonic() + seconds, 0, set()
    due = time.monotonic()
    while time.monotonic() < ends:
        made += 1
        task = asyncio.create_task(_pod(client, f"pod-{time.monotonic_ns()}"))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        due += 1 / PODS_A_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    await asyncio.gather(*tasks)
    return made


async def _pod(client: Http, name: str) -> None:
    try:
        await client.create(Pod, PLAIN.pod(name))
        await asyncio.sleep(LIFE_SECONDS)
        await client.delete(Pod, name, NAMESPACE, grace=0)
    except ApiError as error:
        print(f"{name}: {error}", file=sys.stderr)


async def busy(running: Server) -> float:
    """The processor's seconds that the server takes for a pod."""
    await load(running.client, WARM_SECONDS)
    before = running.processor_seconds()
    made = await load(running.client, SECONDS)
    return (running.processor_seconds() - before) / made


async def _read(running: Server, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{running.base}api/stream", timeout=aiohttp.ClientTimeout(total=None)) as answer:
        async for _ in answer.content.iter_any():
            pass


async def _cost(nodes: int) -> None:
    """Told as parts of a core at the full rate, since a machine that is busy with other things does not reach it."""
    rounds = [await _round(nodes) for _ in range(ROUNDS)]
    alone, watched = (median(column) * PODS_A_SECOND * 100 for column in zip(*rounds, strict=True))
    more = sorted((after - before) * PODS_A_SECOND * 100 for before, after in rounds)
    print(
        f"{nodes} nodes, {PODS_A_SECOND} pods/s: {alone:.1f} % of a core without a page, {watched:.1f} % with one; "
        f"a page costs {median(more):.1f} % ({more[0]:.1f} to {more[-1]:.1f})",
        flush=True,
    )


async def _round(nodes: int) -> tuple[float, float]:
    async with server(nodes) as running:
        await running.client.create(ResourceClaimTemplate, PLAIN.template())
        alone = await busy(running)
        async with window(running) as session:
            reading = asyncio.create_task(_read(running, session))
            watched = await busy(running)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return alone, watched


async def _first(nodes: int) -> None:
    async with server(nodes) as running, window(running) as session:
        cold, warm = await first_picture(running, session), await first_picture(running, session)
        print(
            f"{nodes} nodes x {DEVICES} devices: first picture {cold.bytes / 1024:.0f} KiB, "
            f"{cold.seconds * 1000:.0f} ms for the first page, {warm.seconds * 1000:.0f} ms for the next",
            flush=True,
        )


async def _delays(nodes: int) -> None:
    """How long a page waits for a change, from the answer of the API to the event."""
    async with server(nodes) as running, window(running) as session:
        delays = []
        async with session.get(f"{running.base}api/stream", timeout=aiohttp.ClientTimeout(total=None)) as answer:
            await _seen(answer, b"event: ready")
            for number in range(CHANGES):
                name = f"change-{number}-seen"
                await running.client.create(ResourceClaim, _claim(name), namespace=NAMESPACE)
                begun = time.perf_counter()
                await _seen(answer, name.encode())
                delays.append(time.perf_counter() - begun)
                await asyncio.sleep(number * 0.017 % 0.2)  # at all phases of the server's clock
        told = f"{median(delays) * 1000:.0f} ms in the middle, {max(delays) * 1000:.0f} ms at most"
        print(f"{nodes} nodes: a change is on the page after {told}", flush=True)


async def _in_browser(nodes: int) -> None:
    """The whole page, from the first request to the complete picture, and scrolling its map."""
    async with server(nodes) as running, async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        seconds, loading, scrolling = await _visited(browser, running)
        await browser.close()
        print(
            f"{nodes} nodes, in Chromium: {seconds * 1000:.0f} ms for the page, tasks over 50 ms {loading}; {scrolling}",
            flush=True,
        )


async def _visited(browser: Browser, running: Server) -> tuple[float, list[float], Scrolling]:
    page = await browser.new_page(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
    await page.goto(f"{running.base}#code={running.code}")
    await page.wait_for_selector(LIVE)  # the server's picture is made for the first page
    await page.goto("about:blank")
    await page.add_init_script(WATCH)
    started = time.perf_counter()
    await page.goto(f"{running.base}#/map")
    await page.wait_for_selector(LIVE)
    seconds = time.perf_counter() - started
    loading = await page.evaluate(LONG_TASKS)
    return seconds, loading, Scrolling.of(*await page.evaluate(SCROLL))


async def _seen(answer: aiohttp.ClientResponse, wanted: bytes) -> None:
    tail = b""
    while wanted not in tail:
        tail = tail[-len(wanted) :] + await answer.content.readany()


def _claim(name: str) -> dict[str, object]:
    requests = [{"name": "r", "exactly": {"deviceClassName": CLASS}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


async def _main() -> None:
    for nodes in NODES:
        await _first(nodes)
    if os.access(CHROMIUM, os.X_OK):
        await _in_browser(NODES[-1])
    await _delays(NODES[0])
    await _cost(NODES[0])


def main() -> None:
    asyncio.run(_main())
