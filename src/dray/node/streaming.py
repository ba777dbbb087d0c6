"""Two-way streams into containers, for the API server: exec, attach and port-forward over WebSockets.

Messages are those of `dray.api.channels`; a forwarded port is a WebSocket of plain bytes. A command ends when its
connection does. Left out: access control, which is the API server's task (`logserver` admits only API servers).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from aiohttp import WSMsgType, web

from dray.api import channels
from dray.api.types.core import Pod
from dray.api.wire import Tree
from dray.node.dialling import not_connected
from dray.node.runtime import ContainerAttempt, ContainerKey, ExecError, ExecSession, Runtime

_PIECE = 64 << 10
_MESSAGE_MOST = 4 << 20
_CONNECT_SECONDS = 5.0


class NodeStreams:
    """Serves exec, attach and port-forward streams for the containers of a node."""

    def __init__(self, runtime: Runtime, find: Callable[[str, str], Pod | None]) -> None:
        self._runtime = runtime
        self._find = find

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/exec/{namespace}/{pod}/{container}", self._exec),
            web.get("/attach/{namespace}/{pod}/{container}", self._attach),
            web.get("/portForward/{namespace}/{pod}", self._forward),
        ]

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        argv, tty, stdin = query.getall("command", []), "tty" in query, "input" in query
        return await self._talk(request, lambda key: self._runtime.exec(key, argv, tty=tty, stdin=stdin))

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        """Serve a stream of the container's new output; the container keeps running when the client disconnects."""
        stdin = "input" in request.query
        return await self._talk(request, lambda key: self._runtime.attach(key, stdin=stdin), told_by_code=False)

    async def _talk(
        self,
        request: web.Request,
        begin: Callable[[ContainerKey], Awaitable[ExecSession]],
        *,
        told_by_code: bool = True,
    ) -> web.StreamResponse:
        """Serve the session that `begin` starts in the requested container, then send its exit status.

        With `told_by_code` False, success is always reported: the end of a container is in its pod's status.
        """
        socket = await _open(request)
        attempt = self._running(request)
        if isinstance(attempt, str):
            await _finish(socket, channels.failed(attempt))
            return socket
        try:
            session = await begin(attempt.key)
        except ExecError as error:
            await _finish(socket, channels.failed(str(error)))
            return socket
        try:
            status = await _converse(socket, session)
            await _finish(socket, status if told_by_code else channels.SUCCESS)
        finally:
            session.close()
        return socket

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Connect a WebSocket to a port of the pod and copy data both ways. A text message reports an error."""
        names, port, socket = request.match_info, request.query.get("port", ""), await _open(request)
        if (pod := self._find(names["namespace"], names["pod"])) is None:
            return await _refuse(socket, port, f'pod "{names["pod"]}" not found')
        if not self._runtime.executes:
            return await _refuse(socket, port, f"the runtime {self._runtime.name} executes nothing")
        has_own_address = pod.status.podIP not in ("", pod.status.hostIP)
        host = pod.status.podIP if has_own_address else "127.0.0.1"
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host, int(port))
        except (OSError, ValueError, OverflowError) as error:
            return await _refuse(socket, port, not_connected(f"{host}:{port}", error))
        try:
            await _first([_from_port(reader, socket), _to_port(socket, writer)])
        finally:
            writer.close()
            await socket.close()
        return socket

    def _running(self, request: web.Request) -> ContainerAttempt | str:
        """Return the running attempt of the requested container, or the error as text."""
        names = request.match_info
        pod = self._find(names["namespace"], names["pod"])
        if pod is None:
            return f'pod "{names["pod"]}" not found'
        found = [a for a in self._runtime.attempts(pod.metadata.uid) if a.key.container == names["container"]]
        if not found or not found[-1].running:
            return f'container not found ("{names["container"]}"): it is not running'
        return found[-1]


async def _open(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=(channels.V5,), max_msg_size=_MESSAGE_MOST)
    await socket.prepare(request)
    return socket


async def _refuse(socket: web.WebSocketResponse, port: str, why: str) -> web.WebSocketResponse:
    with suppress(ConnectionError):
        await socket.send_str(f"unable to connect to port {port} of the pod: {why}")
    await socket.close()
    return socket


async def _finish(socket: web.WebSocketResponse, status: Tree) -> None:
    with suppress(ConnectionError):
        await socket.send_bytes(bytes([channels.ERROR]) + msgspec.json.encode(status))
    await socket.close()


async def _converse(socket: web.WebSocketResponse, session: ExecSession) -> Tree:
    """Copy bytes between client and command until the command or the connection ends. Returns the Status to send."""

    async def copy(stream: str, channel: int) -> None:
        while data := await session.read(stream):
            await socket.send_bytes(bytes([channel]) + data)

    async def output() -> None:
        await asyncio.gather(copy("stdout", channels.STDOUT), copy("stderr", channels.STDERR))

    listening = asyncio.create_task(_listen(socket, session))
    writing = asyncio.create_task(output())
    try:
        await asyncio.wait([listening, writing], return_when=asyncio.FIRST_COMPLETED)
        if not writing.done():
            return channels.failed("the connection was closed")
        writing.result()
        code = await session.wait()
    except ConnectionError:
        return channels.failed("the connection was lost")
    finally:
        for task in (listening, writing):
            task.cancel()
        await asyncio.gather(listening, writing, return_exceptions=True)
    return channels.failed(session.failure) if session.failure else channels.ended_with(code)


async def _listen(socket: web.WebSocketResponse, session: ExecSession) -> None:
    """Pass the client's input and terminal sizes on to the command. Returns when the connection ends."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == channels.STDIN:
            await session.write(data)
        elif channel == channels.RESIZE:
            _resize(session, data)
        elif channel == channels.CLOSE and data[:1] == bytes([channels.STDIN]):
            session.close_stdin()


def _resize(session: ExecSession, data: bytes) -> None:
    with suppress(ValueError, KeyError, TypeError):
        size = json.loads(data)
        session.resize(int(size["Width"]), int(size["Height"]))


async def _from_port(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while data := await reader.read(_PIECE):
        await socket.send_bytes(data)


async def _to_port(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Write the client's bytes to the port. An empty message means the end of input; output still flows back."""
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data:
            writer.write(message.data)
            await writer.drain()
        elif message.type is WSMsgType.BINARY and writer.can_write_eof():
            writer.write_eof()


async def _first(works: list[Awaitable[None]]) -> None:
    """Run coroutines concurrently until one of them has ended, then cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
