"""Port-forward: connections to ports of a pod, over SPDY streams or WebSocket channels.

Each connection is a pair of streams for data and errors; each uses its own WebSocket to the node. The node knows
where a port leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

import aiohttp

from dray.api.errors import ApiError, BadRequest
from dray.apiserver.streaming.options import port_number
from dray.apiserver.streaming.spdy import SpdyConnection, SpdyStream
from dray.apiserver.streaming.websockets import WebSocket

_PORTS = 128  # ports that the channels of one WebSocket can address
Connect = Callable[[int], AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]]
"""Opens a connection to a port of the pod; raises ApiError on failure."""


class _Data(Protocol):
    async def read(self) -> bytes | None: ...

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...


async def forward_spdy(connection: SpdyConnection, connect: Connect) -> None:
    """Forward each pair of streams that the client opens, until the client disconnects."""
    running = asyncio.create_task(connection.run())
    waiting: dict[str, SpdyStream] = {}  # error streams waiting for their data stream, by request
    tasks: set[asyncio.Task[None]] = set()
    try:
        while (stream := await connection.accept()) is not None:
            request = stream.headers.get("requestid", "")
            if stream.headers.get("streamtype") == "error":
                stream.ignore()
                waiting[request] = stream
            elif (errors := waiting.pop(request, None)) is not None:
                task = asyncio.create_task(_pair(connection, stream, errors, connect))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                await connection.refuse(stream)
    finally:
        for task in (running, *tasks):
            task.cancel()
        await asyncio.gather(running, *tasks, return_exceptions=True)
        await connection.leave()


async def _pair(connection: SpdyConnection, data: SpdyStream, errors: SpdyStream, connect: Connect) -> None:
    """Forward one pair of streams and end both."""
    problem = await _serve_port(data, data.headers.get("port", ""), connect)
    with suppress(ConnectionError):
        if problem:
            await errors.write(problem.encode())
        await errors.end()
        await data.end()
    for stream in (data, errors):
        connection.forget(stream)


async def _serve_port(data: _Data, port: str, connect: Connect) -> str:
    """Forward bytes until either side ends. Returns an error message, or "" if there was no error.

    An invalid port, a refusal by the node and a lost connection are errors.
    """
    try:
        async with connect(port_number(port)) as node:
            return await _served(node, data)
    except ApiError as error:
        return str(error)
    except (ConnectionError, aiohttp.ClientError) as error:
        return f"the connection to port {port} was lost: {error}"


async def _served(node: aiohttp.ClientWebSocketResponse, data: _Data) -> str:
    """Forward bytes in both directions. Returns the node's error message, or ""."""
    inward = asyncio.create_task(_to_node(data, node))
    try:
        return await _to_client(node, data)
    finally:
        inward.cancel()
        await asyncio.gather(inward, return_exceptions=True)


def check_ports(ports: Sequence[int]) -> None:
    """Raise BadRequest if a client of the older protocol names no ports, or too many. `ports` are port numbers."""
    if not ports:
        raise BadRequest('query parameter "ports" is required')
    if len(ports) > _PORTS:
        raise BadRequest(f"{len(ports)} ports: at most {_PORTS} can be forwarded at once")


async def _to_client(node: aiohttp.ClientWebSocketResponse, data: _Data) -> str:
    """Forward bytes from node to client. Returns the node's error message, or "" at the normal end."""
    async for message in node:
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data)
        if message.type is aiohttp.WSMsgType.BINARY:
            await data.write(message.data)
    return ""


async def _to_node(data: _Data, node: aiohttp.ClientWebSocketResponse) -> None:
    """Forward bytes from client to node until the client ends."""
    while (piece := await data.read()) is not None:
        await node.send_bytes(piece)
    await node.send_bytes(b"")  # end of data


class _Channel:
    """A port as two channels of a WebSocket: the even one for data, the odd one for errors."""

    def __init__(self, socket: WebSocket, number: int) -> None:
        self._socket = socket
        self._number = number
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue(64)

    async def read(self) -> bytes | None:
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        await self._socket.send(bytes([self._number]) + data)

    async def end(self) -> None: ...


async def forward_channels(socket: WebSocket, ports: Sequence[int], connect: Connect) -> None:
    """Forward the ports of a client of the older protocol. Each channel first sends its port number."""
    ports_ = [_Channel(socket, 2 * number) for number in range(len(ports))]
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            await socket.send(bytes([channel]) + port.to_bytes(2, "little"))

    async def serve(number: int) -> None:
        problem = await _serve_port(ports_[number], str(ports[number]), connect)
        if problem:
            await socket.send(bytes([2 * number + 1]) + problem.encode())

    tasks = [asyncio.create_task(serve(number)) for number in range(len(ports))]
    try:
        while (message := await socket.receive()) is not None:
            if message and message[0] % 2 == 0 and message[0] // 2 < len(ports_) and len(message) > 1:
                await ports_[message[0] // 2].incoming.put(message[1:])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await socket.close()
