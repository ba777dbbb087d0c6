"""The API server: start, memory, requests a second over HTTPS, lists, and watch fan-out.

Every rate stands beside a bare "hello" endpoint of the same HTTP server, asked by the same client in the same run. The
server is a process of its own, as users have it; client and server share the machine, so rates are of both together.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
import yaml

CLIENTS = 8
REQUESTS = 500  # of each client
PODS = 5000
WATCHERS = 50
WRITES = 300
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
HELLO = """
import asyncio, sys
from pathlib import Path
import uvloop
from dray.apiserver.serving import HttpServer, Tls, listen

async def app(scope, receive, send):
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})

async def main():
    keys = Path(sys.argv[1])
    sock = listen("127.0.0.1", 0)
    await HttpServer(app, sock, Tls(keys / "server.crt", keys / "server.key", keys / "ca.crt")).start()
    print(sock.getsockname()[1], flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        keys = Path(directory)
        with _server(keys) as first:
            cold = first.seconds
        with _server(keys) as server:
            print(f"start to ready: {cold:.2f} s with new keys, {server.seconds:.2f} s with old (target 1.0)")
            print(f"resident memory, idle: {server.resident():.0f} MB (target 120)")
            with _hello(keys) as hello:
                uvloop.run(_rates(server, hello))
            print(f"resident memory, afterwards: {server.resident():.0f} MB")


class Server:
    def __init__(self, process: subprocess.Popen[str], keys: Path, seconds: float) -> None:
        config = yaml.safe_load((keys / "kubeconfig").read_text())
        self.port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        self.token = config["users"][0]["user"]["token"]
        self.context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        self.seconds = seconds
        self._process = process

    def resident(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def _server(keys: Path) -> Iterator[Server]:
    begun = time.perf_counter()
    program = "import sys; from dray.cli import main; sys.exit(main())"
    options = ["apiserver", "--dir", str(keys), "--port", "0", "--store", "memory"]
    process = subprocess.Popen([sys.executable, "-c", program, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line == "ready\n":
                break
        yield Server(process, keys, time.perf_counter() - begun)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def _hello(keys: Path) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", HELLO, str(keys)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


# Asking


class Connection:
    """One HTTP/1.1 connection that is kept: as little client as possible."""

    def __init__(self, server: Server, port: int) -> None:
        self._server = server
        self._port = port

    async def open(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._server.context, limit=1 << 26
        )
        return self

    async def ask(self, method: str, path: str, body: Any = None, media: str = JSON, accept: str = JSON) -> bytes:
        self.send(method, path, body, media, accept)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head[9:10] == b"2", head + await self._reader.read(500)
        start = head.index(b"content-length: ") + 16
        return await self._reader.readexactly(int(head[start : head.index(b"\r", start)]))

    def send(self, method: str, path: str, body: Any = None, media: str = JSON, accept: str = JSON) -> None:
        data = json.dumps(body).encode() if body is not None else b""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self._server.token}\r\n"
            f"accept: {accept}\r\ncontent-type: {media}\r\ncontent-length: {len(data)}\r\n\r\n".encode()
            + data
        )

    async def chunk(self) -> bytes:
        """The next piece of a watch."""
        return await self._reader.readuntil(b"\n\r\n")

    def close(self) -> None:
        self._writer.close()


async def _rate(server: Server, port: int, request: Callable[[int, int], tuple[Any, ...]]) -> float:
    """Answers a second, with all clients asking one request after the other."""
    connections = [await Connection(server, port).open() for _ in range(CLIENTS)]

    async def client(number: int) -> None:
        for count in range(REQUESTS):
            await connections[number].ask(*request(number, count))

    begun = time.perf_counter()
    await asyncio.gather(*map(client, range(CLIENTS)))
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return CLIENTS * REQUESTS / seconds


def _claim(name: str) -> dict[str, Any]:
    requests = [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


def _pod(number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    return {
        "metadata": {"name": f"p{number}", "labels": {"app": f"a{number % 10}"}},
        "spec": {"containers": [container]},
    }


async def _rates(server: Server, hello_port: int) -> None:
    hello = await _rate(server, hello_port, lambda n, i: ("GET", "/"))
    print(f"hello: {hello:,.0f}/s, the bare HTTP server with {CLIENTS} clients")
    post = await _rate(server, server.port, lambda n, i: ("POST", CLAIMS, _claim(f"c{n}-{i}")))
    get = await _rate(server, server.port, lambda n, i: ("GET", f"{CLAIMS}/c{n}-{i}"))
    numbered = await _rate(server, server.port, lambda n, i: ("GET", f"{CLAIMS}/c{n}-{i}", None, JSON, PROTOBUF))
    merge = "application/merge-patch+json"
    patch = await _rate(
        server, server.port, lambda n, i: ("PATCH", f"{CLAIMS}/c{n}-{i}", {"metadata": {"labels": {"a": "b"}}}, merge)
    )
    for name, rate in (("GET", get), ("GET in protobuf", numbered), ("POST", post), ("PATCH", patch)):
        print(f"{name}: {rate:,.0f}/s, {rate / hello:.0%} of hello")
    await _list(server)
    await _fan_out(server)


async def _list(server: Server) -> None:
    connection = await Connection(server, server.port).open()
    for number in range(PODS):
        await connection.ask("POST", "/api/v1/namespaces/default/pods", _pod(number))
    begun = time.perf_counter()
    body = await connection.ask("GET", "/api/v1/pods")
    seconds = time.perf_counter() - begun
    assert len(json.loads(body)["items"]) == PODS
    begun = time.perf_counter()
    selected = await connection.ask("GET", "/api/v1/pods?labelSelector=app%3Da3")
    narrow = time.perf_counter() - begun
    assert len(json.loads(selected)["items"]) == PODS // 10
    print(
        f"list of {PODS:,} pods: {seconds * 1000:.0f} ms, {len(body) / 1e6:.1f} MB; a tenth by label: {narrow * 1000:.0f} ms"
    )
    begun = time.perf_counter()
    body = await connection.ask("GET", "/api/v1/pods", accept=PROTOBUF)
    seconds = time.perf_counter() - begun
    print(f"the same list in protobuf: {seconds * 1000:.0f} ms, {len(body) / 1e6:.1f} MB")
    connection.close()


async def _fan_out(server: Server) -> None:
    """One writer, many watchers: how long until everybody has heard of everything."""
    path = "/api/v1/namespaces/default/configmaps"
    writer = await Connection(server, server.port).open()
    version = json.loads(await writer.ask("GET", path))["metadata"]["resourceVersion"]
    watchers = [await Connection(server, server.port).open() for _ in range(WATCHERS)]
    for watcher in watchers:
        watcher.send("GET", f"{path}?watch=true&resourceVersion={version}")

    async def heard(watcher: Connection) -> None:
        count = 0
        while count < WRITES:
            count += (await watcher.chunk()).count(b'{"type":"')

    listening = [asyncio.ensure_future(heard(watcher)) for watcher in watchers]
    await asyncio.sleep(0.5)
    begun = time.perf_counter()
    for number in range(WRITES):
        await writer.ask("POST", path, {"metadata": {"name": f"w{number}"}, "data": {"a": "b" * 500}})
    await asyncio.gather(*listening)
    seconds = time.perf_counter() - begun
    print(
        f"watch fan-out: {WRITES / seconds:,.0f} writes/s to {WATCHERS} watchers, {WRITES * WATCHERS / seconds:,.0f} events/s"
    )
    for connection in (writer, *watchers):
        connection.close()


if __name__ == "__main__":
    main()
