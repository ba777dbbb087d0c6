"""One open page: messages in order, and an end for a page that does not read.

Messages are server-sent events with JSON in one line. At most a few megabytes wait for a page; beyond that the page
is told to restart, which is cheaper than the missed messages. `picture` creates the messages.
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
    """Return a server-sent event. JSON contains no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data))


class OpenPage:
    """Messages that wait to be sent to a page of a session."""

    def __init__(self, session: str = "") -> None:
        self.session = session
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self.ended = False  # the page has been told to restart or end

    def put(self, message: bytes) -> None:
        """Append a message. Ends a page that has too many waiting bytes.

        Does nothing if the page has ended.
        """
        if self.ended:
            return
        if self._bytes + len(message) > MOST_BYTES:
            self.end("slow-reader")
            return
        self._waiting.append(message)
        self._bytes += len(message)
        self._some.set()

    def forget(self) -> None:
        """Drop waiting messages, because a complete picture follows."""
        if not self.ended:
            self._waiting.clear()
            self._bytes = 0

    def end(self, code: str) -> None:
        """Drop waiting messages, send the reason code, then end the page.

        Does nothing if the page has ended already.
        """
        if not self.ended:
            self.ended = True
            self._waiting.clear()
            self._waiting.append(event("bye", {"code": code}))
            self._some.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages until the end, and a heartbeat if there are none for a while."""
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
