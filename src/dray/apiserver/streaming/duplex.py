"""A connection that no longer uses HTTP: bytes in both directions, with back-pressure in both.

Received bytes wait here, and the transport pauses above a limit. A writer waits while the peer does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

_HIGH_WATER = 256 << 10  # bytes waiting to be read, above which the transport pauses


class Bytes(Protocol):
    """A connection that reads and writes bytes."""

    async def read(self) -> bytes:
        """Return the next bytes, or b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write bytes and wait until the peer can take more. Raises ConnectionError if the peer has disconnected."""
        ...

    def close(self) -> None: ...


class Duplex:
    """Bytes of a transport whose received data is fed in with `feed`."""

    def __init__(self, transport: asyncio.Transport, drain: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._drain = drain
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._news = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Add received data. Pauses the transport above the limit."""
        self._waiting.append(data)
        self._size += len(data)
        self._news.set()
        if self._size > _HIGH_WATER:
            self._transport.pause_reading()

    def feed_end(self) -> None:
        """Mark the end of the received data."""
        self._ended = True
        self._news.set()

    async def read(self) -> bytes:
        while not self._waiting and not self._ended:
            self._news.clear()
            await self._news.wait()
        if not self._waiting:
            return b""
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self._ended:
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self._ended or self._transport.is_closing():
            raise ConnectionResetError("the peer is gone")
        self._transport.write(data)
        await self._drain()

    def close(self) -> None:
        self._transport.close()
