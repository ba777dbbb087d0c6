"""Actions of probes and lifecycle hooks: run a command in the container, or send an HTTP, TCP or gRPC request.

Each action returns an outcome with a text in Kubernetes' wording, and never raises. Left out: how often actions run
and what follows from an outcome (`probes`, `hooks`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from dray.api.types.core import HTTPGetAction, LifecycleHandler, Probe
from dray.client import Clock
from dray.node.containers import AnyContainer
from dray.node.dialling import not_connected
from dray.node.runtime import ContainerKey, ExecError, ExecSession, Runtime

USER_AGENT = "kube-probe/1.37"
_OUTPUT_BYTES = 10 * 1024  # size limit of a command's or server's output, as in Kubernetes
_MOST_REDIRECTS = 10
_SERVING = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


class ActionOutcome(NamedTuple):
    """Result of an action. `ok` is success, `errored` means that the action itself could not run.

    `warning` marks a success that should still be reported in an event.
    """

    ok: bool
    text: str = ""
    errored: bool = False
    warning: bool = False


class Handlers:
    """Performs probe and hook actions on the containers of one runtime."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock

    async def act(
        self,
        handler: Probe | LifecycleHandler,
        container: AnyContainer,
        key: ContainerKey,
        address: str,
        seconds: float,
    ) -> ActionOutcome:
        """Perform the action of a probe or hook within `seconds`. `address` is the pod's. Returns the outcome.

        A handler without an action, and a port name that the container does not have, are failures.
        """
        if handler.exec is not None:
            return await self._exec(key, handler.exec.command, seconds)
        if handler.httpGet is not None:
            port = _port(handler.httpGet.port, container)
            return (
                _unnamed(handler.httpGet.port) if port is None else await _http(handler.httpGet, port, address, seconds)
            )
        if handler.tcpSocket is not None:
            port = _port(handler.tcpSocket.port, container)
            host = handler.tcpSocket.host or address
            return _unnamed(handler.tcpSocket.port) if port is None else await _tcp(host, port, seconds)
        if isinstance(handler, Probe) and handler.grpc is not None:
            return await _grpc(f"{address}:{handler.grpc.port}", handler.grpc.service or "", seconds)
        if isinstance(handler, LifecycleHandler) and handler.sleep is not None:
            await self._clock.sleep(min(handler.sleep.seconds, seconds))
            return ActionOutcome(True)
        return ActionOutcome(False, "missing handler", errored=True)

    async def _exec(self, key: ContainerKey, argv: tuple[str, ...], seconds: float) -> ActionOutcome:
        try:
            session = await self._runtime.exec(key, argv)
        except ExecError as error:
            return ActionOutcome(False, str(error), errored=True)
        try:
            async with asyncio.timeout(seconds):
                out, err = await asyncio.gather(_collected(session, "stdout"), _collected(session, "stderr"))
                code = await session.wait()
        except TimeoutError:
            return ActionOutcome(False, f'command timed out: "{" ".join(argv)}" timed out after {seconds:g}s')
        finally:
            session.close()
        if session.failure:
            return ActionOutcome(False, session.failure, errored=True)
        return ActionOutcome(code == 0, (out + err)[:_OUTPUT_BYTES].decode(errors="replace"))


async def _collected(session: ExecSession, stream: str) -> bytes:
    data = b""
    while more := await session.read(stream):
        data += more[: max(0, _OUTPUT_BYTES - len(data))]
    return data


def _port(port: int | str, container: AnyContainer) -> int | None:
    """Return the number of a port; a name is looked up in the container's ports. None if the name is unknown.

    Text that is a decimal number is that port.
    """
    if isinstance(port, int):
        return port
    if port.isdecimal():
        return int(port)
    return next((p.containerPort for p in container.ports if p.name == port), None)


def _unnamed(port: int | str) -> ActionOutcome:
    return ActionOutcome(False, f"couldn't find port: {port}", errored=True)


# HTTP


async def _http(action: HTTPGetAction, port: int, address: str, seconds: float) -> ActionOutcome:
    host = action.host or address
    name = f"[{host}]" if ":" in host else host
    url = f"{action.scheme.lower() or 'http'}://{name}:{port}/"
    try:
        url = urljoin(url, action.path.lstrip("/"))
        async with asyncio.timeout(seconds), _client() as client:
            return await _get(client, url, _headers(action))
    except TimeoutError:
        text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    except (OSError, ValueError) as error:
        text = not_connected(f"{name}:{port}", error)
    except Exception as error:  # aiohttp's own errors, for answers that are not HTTP
        text = str(error) or type(error).__name__
    return ActionOutcome(False, f'Get "{url}": {text}')


@asynccontextmanager
async def _client() -> AsyncIterator[Any]:
    import aiohttp

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the machine's CA certificates, which take long to load
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # as in Kubernetes: a probe does not verify certificates
    connector = aiohttp.TCPConnector(force_close=True, ssl=tls)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as client:
        yield client


def _headers(action: HTTPGetAction) -> list[tuple[str, str]]:
    given = [(header.name, header.value) for header in action.httpHeaders]
    names = {name.lower() for name, _ in given}
    usual = (("User-Agent", USER_AGENT), ("Accept", "*/*"))
    return [*given, *((name, value) for name, value in usual if name.lower() not in names)]


async def _get(client: Any, url: str, headers: list[tuple[str, str]]) -> ActionOutcome:
    first = urlsplit(url).hostname
    for _ in range(_MOST_REDIRECTS):
        async with client.get(url, headers=headers, allow_redirects=False) as answer:
            body = (await answer.content.read(_OUTPUT_BYTES)).decode(errors="replace")
            target = answer.headers.get("Location")
            if not (300 <= answer.status < 400 and target):
                if 200 <= answer.status < 400:
                    return ActionOutcome(True, body)
                return ActionOutcome(False, f"HTTP probe failed with statuscode: {answer.status}")
            url = urljoin(url, target)
            if urlsplit(url).hostname != first:
                return ActionOutcome(True, f"Probe terminated redirects, Response body: {body}", warning=True)
    return ActionOutcome(False, f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


# TCP and gRPC


async def _tcp(host: str, port: int, seconds: float) -> ActionOutcome:
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, ValueError) as error:
        return ActionOutcome(False, not_connected(where, error))
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ActionOutcome(True)


async def _grpc(where: str, service: str, seconds: float) -> ActionOutcome:
    import grpc

    name = service.encode()
    request = b"\x0a" + _varint(len(name)) + name
    options = (("grpc.primary_user_agent", USER_AGENT), ("grpc.enable_retries", 0))
    async with grpc.aio.insecure_channel(where, options=options) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            answer: bytes = await check(request if name else b"", timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return ActionOutcome(False, _grpc_failure(error, where, seconds))
    status = _SERVING.get(answer[1] if answer[:1] == b"\x08" and len(answer) > 1 else 0, "UNKNOWN")
    return ActionOutcome(
        status == "SERVING", "" if status == "SERVING" else f'service unhealthy (responded with "{status}")'
    )


def _varint(number: int) -> bytes:
    """Return a number in the form in which protobuf encodes lengths."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _grpc_failure(error: Any, where: str, seconds: float) -> str:
    code = error.code().name
    if code == "UNIMPLEMENTED":
        text = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return f"error: {text}: {error.details()}"
    if code in ("DEADLINE_EXCEEDED", "UNAVAILABLE"):
        return f'timeout: failed to connect service "{where}" within {seconds:g}s: {error.details()}'
    return f"error: health rpc probe failed: {error.details()}"
