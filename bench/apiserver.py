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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
import yaml

CLIENTS = 8
REQUESTS = 500  # of each client
PODS = 5000
WATCHERS = 50
TURNS = 3  # of custom and built-in objects
WRITES = 300
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
HELLO = """
import asyncio, sys
from pathlib import Path
import uvloop
from dray.apiserver.wire.serving import HttpServer, Tls, listen

async def app(scope, receive, send):
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})

async def main():
    keys = Path(sys.argv[1])
    sock = listen("127.0.0.1", 0)
    server = HttpServer(app, sock, Tls(keys / "server.crt", keys / "server.key", keys / "ca.crt"))
    await server.start()
    print(sock.getsockname()[1], flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        keys = Path(directory)
        with serving(keys, "apiserver") as first:
            cold = first.seconds
        with serving(keys, "apiserver") as server:
            print(f"start to ready: {cold:.2f} s with new keys, {server.seconds:.2f} s with old (target 1.0)")
            print(f"resident memory, idle: {server.resident():.0f} MB (target 120)")
            with _hello(keys) as hello:
                uvloop.run(_rates(server, hello))
            print(f"resident memory, afterwards: {server.resident():.0f} MB")


class Server:
    def __init__(self, process: subprocess.Popen[str], keys: Path, seconds: float) -> None:
        self.directory = keys
        config = yaml.safe_load((keys / "kubeconfig").read_text())
        self.port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        self.token = config["users"][0]["user"]["token"]
        self.context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        self.seconds = seconds
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def resident(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def serving(keys: Path, *command: str) -> Iterator[Server]:
    """A server of its own process, started by this command of dray."""
    begun = time.perf_counter()
    program = "import sys; from dray.cli import main; sys.exit(main())"
    options = [*command, "--dir", str(keys), "--port", "0", "--store", "memory"]
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
        if b"transfer-encoding: chunked" in head:
            return b"".join([part async for part in self._chunks()])
        start = head.index(b"content-length: ") + 16
        return await self._reader.readexactly(int(head[start : head.index(b"\r", start)]))

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)

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
    await _custom(server)


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
    path = "/api/v1/namespaces/default/configmaps"
    rate = await _told(server, path, lambda n: {"metadata": {"name": f"w{n}"}, "data": {"a": "b" * 500}})
    print(f"watch fan-out: {rate:,.0f} writes/s to {WATCHERS} watchers, {rate * WATCHERS:,.0f} events/s")


async def _told(server: Server, path: str, body: Callable[[int], dict[str, Any]]) -> float:
    """One writer, many watchers: writes a second until everybody has heard of everything."""
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
        await writer.ask("POST", path, body(number))
    await asyncio.gather(*listening)
    seconds = time.perf_counter() - begun
    for connection in (writer, *watchers):
        connection.close()
    return WRITES / seconds


async def _custom(server: Server) -> None:
    """Custom resources beside built-in ones of the same size and form: created, listed, watched."""
    connection = await Connection(server, server.port).open()
    await connection.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition())
    await asyncio.sleep(0.5)  # until it is established
    copies = "/apis/bench.example.com/v1/namespaces/default/claimcopies"
    best: dict[str, list[float]] = {CLAIMS: [0.0] * 3, copies: [0.0] * 3}
    for turn in range(TURNS):  # in turns, and the best of each, since others use the machine too
        for path in best:
            head = {} if path == CLAIMS else {"apiVersion": "bench.example.com/v1", "kind": "ClaimCopy"}
            created = await _rate(server, server.port, partial(_creation, path, head, turn))
            begun = time.perf_counter()
            count = (await connection.ask("GET", path)).count(b'"uid":')
            listed = count / (time.perf_counter() - begun)
            told = await _told(server, path, partial(_more, head, turn))
            best[path] = list(map(max, best[path], (created, listed, told)))
    for name, plain, custom in zip(("created", "listed", "told to watchers"), *best.values(), strict=True):
        print(f"{name}: {custom:,.0f} custom objects/s, {custom / plain:.0%} of built-in ones (target 67%)")
    connection.close()


def _creation(path: str, head: dict[str, Any], turn: int, client: int, count: int) -> tuple[Any, ...]:
    return "POST", path, _numbered(head, f"{turn}-{client}-{count}")


def _numbered(head: dict[str, Any], number: str) -> dict[str, Any]:
    """An object like no other: what the server remembers of the one before does not help."""
    tree = {**head, **_claim(f"x{number}")}
    tree["metadata"]["labels"] = {"number": number}
    return tree


def _more(head: dict[str, Any], turn: int, number: int) -> dict[str, Any]:
    return _numbered(head, f"{turn}-{number}")


def _definition() -> dict[str, Any]:
    request = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "exactly": {"type": "object", "properties": {"deviceClassName": {"type": "string"}}},
        },
    }
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    devices = {"type": "object", "properties": {"requests": {"type": "array", "items": request, **keys}}}
    spec = {"type": "object", "properties": {"devices": devices}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "claimcopies", "singular": "claimcopy", "kind": "ClaimCopy"}
    return {
        "metadata": {"name": "claimcopies.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


if __name__ == "__main__":
    main()
