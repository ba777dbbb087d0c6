"""A client of a command in a container: the same five channels over WebSockets and over SPDY.

`receive` returns the client's messages (input, terminal sizes, end of input), `send` passes output on, and `finish`
sends how the command ended. `relay` connects the client to the node.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import msgspec

from dray.api import channels
from dray.api.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT
from dray.api.wire import Tree
from dray.apiserver.streaming.spdy import SpdyConnection, SpdyStream
from dray.apiserver.streaming.websockets import WebSocket

STREAMS_WITHIN = 30.0  # seconds in which a SPDY client must open the streams it requested
_NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}

StreamMessage = tuple[int, bytes]  # channel and data; CLOSE with the number of a channel marks its end


class StreamClient(Protocol):
    """The client side of a stream into a container."""

    async def receive(self) -> StreamMessage | None:
        """Return the client's next message, or None if the client has disconnected."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send output to the client. Raises ConnectionError if the client has disconnected."""
        ...

    async def finish(self, status: Tree) -> None:
        """Send the final Status and close the connection."""
        ...


async def _tell(client: StreamClient, status: Tree, whole: bool) -> None:
    """Send the final Status of a session. Older protocols receive only the message of a failure."""
    if whole:
        await client.send(ERROR, msgspec.json.encode(status))
    elif status["status"] != "Success":
        await client.send(ERROR, status["message"].encode())


class WebSocketClient:
    """A client that uses any of the WebSocket subprotocols."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self._base64 = "base64" in protocol
        self._tells_status = protocol not in (channels.V1, channels.BASE64_V1, "")

    async def greet(self, outputs: Iterable[int]) -> None:
        """Send an empty message on the lowest output channel, which tells the client that the connection is ready."""
        await self.send(min(outputs, default=ERROR), b"")

    async def receive(self) -> StreamMessage | None:
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            if not self._base64:
                return message[0], message[1:]
            with suppress(binascii.Error):
                return message[0] - ord("0"), base64.b64decode(message[1:])
        return None

    async def send(self, channel: int, data: bytes) -> None:
        if self._base64:
            await self._socket.send_text(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send(bytes([channel]) + data)

    async def finish(self, status: Tree) -> None:
        with suppress(ConnectionError):
            await _tell(self, status, self._tells_status)
        await self._socket.close()


class SpdyClient:
    """A client over SPDY. Each channel is a stream opened by the client."""

    def __init__(self, connection: SpdyConnection, protocol: str) -> None:
        self._connection = connection
        self._tells_status = protocol == channels.V4
        self._streams: dict[int, SpdyStream] = {}
        self._messages: asyncio.Queue[StreamMessage | None] = asyncio.Queue(16)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, wanted: set[int]) -> bool:
        """Wait for the streams that the client requested. Returns False if they are not opened in time."""
        self._tasks.append(asyncio.create_task(self._run()))
        try:
            async with asyncio.timeout(STREAMS_WITHIN):
                while wanted - self._streams.keys():
                    stream = await self._connection.accept()
                    if stream is None:
                        return False
                    channel = _NAMES.get(stream.headers.get("streamtype", ""))
                    if channel is None:
                        await self._connection.refuse(stream)
                        continue
                    self._streams[channel] = stream
                    if channel not in (STDIN, RESIZE):
                        stream.ignore()
        except TimeoutError:
            return False
        for channel in (STDIN, RESIZE):
            if channel in self._streams:
                self._tasks.append(asyncio.create_task(self._pump(channel)))
        return True

    async def _run(self) -> None:
        """Read the connection until it ends, then end `receive`."""
        with suppress(ConnectionError):
            await self._connection.run()
        await self._messages.put(None)

    async def _pump(self, channel: int) -> None:
        """Pass the data of a channel to `receive` until the stream ends."""
        stream = self._streams[channel]
        while (data := await stream.read()) is not None:
            await self._messages.put((channel, data))
        await self._messages.put((CLOSE, bytes([channel])))

    async def receive(self) -> StreamMessage | None:
        return await self._messages.get()

    async def send(self, channel: int, data: bytes) -> None:
        if channel in self._streams:
            await self._streams[channel].write(data)

    async def finish(self, status: Tree) -> None:
        with suppress(ConnectionError):
            await _tell(self, status, self._tells_status)
            for stream in self._streams.values():
                await stream.end()
        await self._connection.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
