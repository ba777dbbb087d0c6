"""The node agent: what it adds to a driver's prepare, how fast pods start, and what an idle agent weighs.

The prepare latency stands beside a bare call to the same driver, the starts under `process` beside those under `fake`.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from dray.api.podclaims import Sharing
from dray.api.types.core import Container, ExecAction, Node, Pod, Probe, TCPSocketAction
from dray.api.types.resource import ResourceClaim
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, InProcess, SystemClock
from dray.node.agent import Agent, AgentSettings
from dray.node.checkpoint import Checkpoint
from dray.node.claims import ClaimsOnNode
from dray.node.drivers import ClaimId
from dray.node.handlers import Handlers
from dray.node.images.unpack import Unpacking
from dray.node.plugins import Plugins
from dray.node.runtime import ContainerKey, Task
from dray.node.runtimes import open_runtime
from dray.rpc import dra_v1_pb2, registration_pb2
from dray.rpc.services import add_service

DRIVER = "noop.example.com"
CLAIMS = 300
PODS = {"fake": 400, "process": 60}
IDLE_AGENTS = 1000
NODE = "bench"
PROBES = 200
PROBED_PODS, PROBE_PERIOD = 1000, 10
IMAGE_BYTES = 64 << 20


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="db-") as directory:
        root = Path(directory)
        asyncio.run(_idle(root / "idle"))  # first: what others leave behind would hide what it takes
        asyncio.run(_alone(root / "alone"))
        asyncio.run(_prepare(root / "prepare"))
        for runtime in PODS:
            asyncio.run(_pods(root / runtime, runtime))
        asyncio.run(_probes(root / "probes"))
        _unpack(root / "images")


class _Noop:
    """A driver that answers at once, and its registration."""

    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answer = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].devices.add(pool_name="pool", device_name="d")
        return answer

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        answer = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
        return answer

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(self._endpoint), supported_versions=["v1.DRAPlugin"]
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        return registration_pb2.RegistrationStatusResponse()


@asynccontextmanager
async def _driver(root: Path) -> AsyncIterator[None]:
    endpoint, registry = root / "dra.sock", root / "plugins_registry"
    registry.mkdir(parents=True, exist_ok=True)
    noop, server = _Noop(endpoint), grpc.aio.server()
    add_service(server, dra_v1_pb2, noop)
    add_service(server, registration_pb2, noop)
    server.add_insecure_port(f"unix:{endpoint}")
    server.add_insecure_port(f"unix:{registry / 'noop-reg.sock'}")
    await server.start()
    yield
    await server.stop(0)


@asynccontextmanager
async def _client() -> AsyncIterator[Client]:
    running = await Running.open(ServerSettings(authenticate=False, disabled_plugins=("ServiceAccount",)))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def _prepare(root: Path) -> None:
    async with _client() as client, _driver(root):
        plugins = Plugins(root / "plugins_registry", clock=SystemClock(), changed=_ignore, remove_slices=_forget)
        watching = asyncio.create_task(plugins.run())
        await _until(lambda: (found := plugins.find(DRIVER)) is not None and found.connected)
        driver = plugins.find(DRIVER)
        assert driver is not None
        claims = ClaimsOnNode(client, Checkpoint(root / "claims.json"), plugins, Sharing())
        pods = [await _pod(client, number, claim=True) for number in range(CLAIMS)]
        bare = [await _timed(driver.prepare([ClaimId("default", "c", str(n))])) for n in range(CLAIMS)]
        agent = [await _timed(claims.prepare(pod)) for pod in pods]
        sync = [_sync_seconds(root / "plain") for _ in range(CLAIMS)]
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    print(f"prepare of one claim through the agent: {_shown(agent)}; the bare call to the driver: {_shown(bare)}")
    print(f"  of it two writes of the checkpoint, with a synced write of a plain file taking {_shown(sync)}")


async def _pods(root: Path, runtime: str) -> None:
    count = PODS[runtime]
    async with _client() as client:
        agent = Agent(client, AgentSettings(NODE, root, runtime=runtime, outlived=False))
        task = asyncio.create_task(agent.run())
        await agent.started.wait()
        begun = time.perf_counter()
        for number in range(count):
            await _pod(client, number)
        await _until(lambda: _running(client, count))
        seconds = time.perf_counter() - begun
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    print(f"pods started per second under {runtime}: {count / seconds:.0f} ({count} pods in {seconds:.2f} s)")


async def _probes(root: Path) -> None:
    """What a probe costs in processor time, and what that makes of a node with many pods."""
    runtime = open_runtime("process", root)
    key = ContainerKey("bench", "main", 0)
    await runtime.start(Task(key, ("sleep", "600")))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    handlers = Handlers(runtime, SystemClock())
    port = server.sockets[0].getsockname()[1]
    asked = {
        "tcpSocket": Probe(tcpSocket=TCPSocketAction(port=port)),
        "exec": Probe(exec=ExecAction(command=("true",))),
    }
    for name, probe in asked.items():
        own, begun = _processor_seconds(), time.perf_counter()
        for _ in range(PROBES):
            await handlers.act(probe, Container(name="main"), key, "127.0.0.1", 10)
        cost, each = _processor_seconds() - own, (time.perf_counter() - begun) / PROBES
        load = cost / PROBES * PROBED_PODS / PROBE_PERIOD
        print(
            f"a probe by {name}: {each * 1e3:.2f} ms; {PROBED_PODS} pods, one each every {PROBE_PERIOD} s: "
            f"{load:.1%} of a core in the agent"
        )
    server.close()
    await runtime.stop(key, 0)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _unpack(root: Path) -> None:
    """Layers as they come from registries: gzip, half of it compressible, in files of 64 KB."""
    root.mkdir()
    data = os.urandom(32 << 10) + bytes(32 << 10)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive:
        for number in range(IMAGE_BYTES // len(data)):
            info = tarfile.TarInfo(f"d{number % 50}/{number}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    packed = stream.tell()
    stream.seek(0)
    unpacking = Unpacking(root)
    begun = time.perf_counter()
    unpacking.layer(io.BufferedReader(stream), "", "bench")
    seconds = time.perf_counter() - begun
    unpacking.close()
    print(
        f"unpacking an image: {IMAGE_BYTES / seconds / 1e6:.0f} MB/s of files, {packed / seconds / 1e6:.0f} MB/s packed"
    )


async def _idle(root: Path) -> None:
    async with _client() as client:
        tasks = [await _begun(client, root / "first", "first")]  # pays for what all share
        before = _resident_bytes()
        tasks += [await _begun(client, root / str(number), f"idle-{number}") for number in range(IDLE_AGENTS)]
        each = (_resident_bytes() - before) / IDLE_AGENTS
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        await asyncio.sleep(2)
        load = (resource.getrusage(resource.RUSAGE_SELF).ru_utime - begun) / 2 / len(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"an idle agent in a process that has one: {each / 1e6:.2f} MB, {load:.2%} of a core")
    total = each * IDLE_AGENTS / 1e6
    print(
        f"  {IDLE_AGENTS} nodes with the runtime fake: {total:.0f} MB; this process before them: {before / 1e6:.0f} MB"
    )


async def _alone(root: Path) -> None:
    """An agent as a process of its own."""
    running = await Running.open(ServerSettings(authenticate=False))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, None)
    await http.start()
    _write_kubeconfig(root, f"http://127.0.0.1:{sock.getsockname()[1]}")
    arguments = ["node", "--name", NODE, "--root", root / "r", "--kubeconfig", root / "kubeconfig"]
    command = "import sys; from dray.cli import main; sys.exit(main())"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        command,
        *map(str, (*arguments, "--runtime", "process", "--port", "-1")),
        stdout=asyncio.subprocess.DEVNULL,
    )
    client = InProcess(running.api, ADMIN)
    begun = time.perf_counter()
    await _until(lambda: _registered(client))
    seconds = time.perf_counter() - begun
    await asyncio.sleep(0.5)
    print(f"an agent as a process: {_resident_bytes(process.pid) / 1e6:.0f} MB, registered after {seconds:.2f} s")
    process.terminate()
    await process.wait()
    await http.stop()
    await running.close()


def _write_kubeconfig(root: Path, server: str) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    root.mkdir()
    (root / "kubeconfig").write_text(json.dumps(config))


async def _registered(client: Client) -> bool:
    return any(
        condition.type == "Ready" for node in (await client.list(Node)).items for condition in node.status.conditions
    )


async def _begun(client: Client, root: Path, name: str) -> asyncio.Task[None]:
    agent = Agent(client, AgentSettings(name, root, runtime="fake"))
    task = asyncio.create_task(agent.run())
    await agent.started.wait()
    return task


async def _pod(client: Client, number: int, *, claim: bool = False) -> Pod:
    """A pod on the node, with a claim that is allocated and reserved for it if it is to have one."""
    name = f"p{number}"
    main = {"name": "main", "image": "none", "command": ["sleep", "600"]}
    spec: dict[str, Any] = {"nodeName": NODE, "containers": [main]}
    if claim:
        spec["resourceClaims"] = [{"name": "c", "resourceClaimName": f"c{number}"}]
    pod = await client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    if claim:
        await _claim(client, f"c{number}", pod)
    return pod


async def _claim(client: Client, name: str, pod: Pod) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    tree = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await client.create(ResourceClaim, tree, namespace="default")
    result = {"request": "r", "driver": DRIVER, "pool": "pool", "device": "d"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}],
    }
    await client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


async def _running(client: Client, count: int) -> bool:
    return sum(pod.status.phase == "Running" for pod in (await client.list(Pod)).items) == count


async def _until(condition: Callable[[], Any]) -> None:
    while True:
        met = condition()
        if await met if asyncio.iscoroutine(met) else met:
            return
        await asyncio.sleep(0.01)


async def _timed(work: Any) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


def _sync_seconds(file: Path) -> float:
    begun = time.perf_counter()
    with file.open("wb") as stream:
        stream.write(b"x" * 20_000)
        stream.flush()
        os.fsync(stream.fileno())
    return time.perf_counter() - begun


def _shown(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms"


def _resident_bytes(process: int | str = "self") -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _ignore(name: str) -> None: ...


async def _forget(name: str) -> None: ...
