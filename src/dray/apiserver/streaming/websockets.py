"""WebSocket messages on a connection: handshake, whole messages in both directions, and closing."""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from dray.apiserver.limits import STREAM_MESSAGE
from dray.apiserver.streaming.duplex import Bytes
from dray.background.turns import Steps

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NORMAL, TOO_LARGE = 1000, 1009


def chosen(offered: str, known: Sequence[str]) -> str:
    """Return the first subprotocol, in the client's order, that both sides know; "" if there is none."""
    return next((name for name in (one.strip() for one in offered.split(",")) if name in known), "")


def handshake(headers: Mapping[str, str], protocol: str) -> bytes:
    """Return the response that upgrades a connection to a WebSocket. Raises ValueError for an invalid handshake."""
    key = headers.get("sec-websocket-key", "")
    if headers.get("sec-websocket-version") != "13" or not key:
        raise ValueError("expected Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key")
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Accept: {accept}"]
    if protocol:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join([*lines, "", ""]).encode()


class WebSocket:
    """A WebSocket with whole messages. Pings are answered while messages are read."""

    def __init__(self, stream: Bytes, user: str) -> None:
        self._stream = stream
        self._steps = Steps(user)
        self._frames = Connection(ConnectionType.SERVER)
        self._messages: deque[bytes] = deque()
        self._begun = bytearray()  # parts of an incomplete message
        self._ended = False

    async def receive(self) -> bytes | None:
        """Return the next message, text as bytes; None at the end.

        A protocol error or a lost connection is the end, too.
        """
        while not self._messages and not self._ended:
            data = await self._stream.read()
            await self._steps.begin()
            try:
                self._frames.receive_data(data or None)
                for event in self._frames.events():
                    await self._take(event)
                    await self._steps.step()
            except (RemoteProtocolError, LocalProtocolError, ConnectionError):
                self._ended = True
            self._steps.end()
        return self._messages.popleft() if self._messages else None

    async def _take(self, event: object) -> None:
        """Process one event: collect a message, answer a ping, or close.

        Raises ConnectionAbortedError, after closing the connection, if a message is too long.
        """
        match event:
            case BytesMessage() | TextMessage():
                self._begun += event.data.encode() if isinstance(event.data, str) else event.data
                if len(self._begun) > STREAM_MESSAGE:
                    await self.close(TOO_LARGE)
                    raise ConnectionAbortedError("the message is too long")
                if event.message_finished:
                    self._messages.append(bytes(self._begun))
                    self._begun.clear()
            case Ping():
                await self._stream.write(self._frames.send(event.response()))
            case CloseConnection():
                self._ended = True
                await self._stream.write(self._frames.send(event.response()))

    async def send(self, data: bytes) -> None:
        """Send a binary message. Raises ConnectionError if the client has disconnected."""
        await self._send(BytesMessage(data=data))

    async def send_text(self, text: str) -> None:
        """Send a text message. Raises ConnectionError if the client has disconnected."""
        await self._send(TextMessage(data=text))

    async def _send(self, message: BytesMessage | TextMessage) -> None:
        try:
            await self._stream.write(self._frames.send(message))
        except LocalProtocolError as error:
            raise ConnectionResetError("the WebSocket is closed") from error

    def abort(self) -> None:
        """Close the connection without a close frame."""
        self._ended = True
        self._stream.close()

    async def close(self, code: int = NORMAL) -> None:
        """Send a close frame and close the connection."""
        self._ended = True
        with suppress(ConnectionError, LocalProtocolError):  # the client has already closed it
            await self._stream.write(self._frames.send(CloseConnection(code=code)))
        self._stream.close()


class MessageBytes:
    """Messages of a WebSocket as one byte stream, for a protocol tunnelled through it."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """Return the next non-empty message, or b"" at the end."""
        while (message := await self._socket.receive()) == b"":
            continue
        return message or b""

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)

    def close(self) -> None:
        self._socket.abort()
