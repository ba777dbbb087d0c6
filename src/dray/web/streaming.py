"""One open page: events in order, and an end for a page that does not read.

Server-sent events: each message is one event with JSON in one line. A page that takes nothing keeps at most a few
megabytes here; then it is told to start again, which is cheaper than what it has missed. Left out: what is sent (`picture`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

MOST_BYTES = 8 << 20  # that wait for a page
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": \n\n"

_encode = msgspec.json.Encoder().encode


def event(name: str, data: Any) -> bytes:
    """A message as it is sent; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data))


class OpenPage:
    """What waits to be sent to a page of a session."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self.ended = False  # whether it has been told to start again or to end

    def put(self, message: bytes) -> None:
        """Send a message, after those that wait."""
        if self.ended:
            return
        if self._bytes + len(message) > MOST_BYTES:
            self.end("slow-reader")
            return
        self._waiting.append(message)
        self._bytes += len(message)
        self._some.set()

    def forget(self) -> None:
        """Drop what waits: a first picture comes, which has it all."""
        if not self.ended:
            self._waiting.clear()
            self._bytes = 0

    def end(self, code: str) -> None:
        """Say why, and send nothing more; what waits is dropped."""
        if not self.ended:
            self.ended = True
            self._waiting.clear()
            self._waiting.append(event("bye", {"code": code}))
            self._some.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """What is to be sent, until the end; a sign of life where there is nothing."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message)
                yield message
            if self.ended:
                return
            self._some.clear()
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._some.wait()
            except TimeoutError:
                yield HEARTBEAT
