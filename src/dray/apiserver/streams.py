"""Answers without end: a watch as lines or frames of events, a log as it grows, until the client leaves or the time is up.

The connection is written to by one task and listened to by another; whichever ends first ends the answer. A client of a
watch that does not read is left after a while: the store has dropped its watch long before that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from time import monotonic
from typing import Any

from dray.api.errors import ApiError
from dray.apiserver.answers import Printer, error_event
from dray.apiserver.bodies import PROTOBUF
from dray.apiserver.negotiation import Accepted
from dray.apiserver.storage import Form
from dray.apiserver.watching import Change

_SEND_SECONDS = 30.0  # for one batch to be taken by the client
_TURN = 64  # events in protobuf, about 5 ms, after which others have their turn; stored JSON takes no time

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Stream:
    """Turns batches of changes into chunks of an answer."""

    def __init__(self, printer: Printer, form: Form, accepted: Accepted, include: str) -> None:
        self._printer = printer
        self._form = form
        self._accepted = accepted
        self._include = include
        self._turn = _TURN if accepted.media == PROTOBUF else sys.maxsize
        self._first = True
        self._sending_since: float | None = None

    async def run(self, changes: AsyncGenerator[list[Change], None], receive: Receive, send: Send) -> None:
        writer = asyncio.ensure_future(self._write(changes, send))
        guard = self._guard(writer)
        try:
            await _while_connected(writer, receive)
        finally:
            guard()

    async def _write(self, changes: AsyncGenerator[list[Change], None], send: Send) -> None:
        await self._send(send, b"")  # the client sees the headers
        try:
            async with aclosing(changes) as batches:
                async for batch in batches:
                    while len(batch) > self._turn:
                        await self._send(send, b"".join(map(self._event, batch[: self._turn])))
                        batch = batch[self._turn :]
                        await asyncio.sleep(0)
                    await self._send(send, b"".join(map(self._event, batch)))
        except ApiError as error:
            await self._send(send, error_event(error, self._accepted.media))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, body: bytes) -> None:
        self._sending_since = monotonic()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = None

    def _guard(self, writer: asyncio.Future[None]) -> Callable[[], None]:
        """Look now and then whether the client takes what it is sent; a timeout for every event would cost more."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if self._sending_since is not None and monotonic() - self._sending_since > _SEND_SECONDS:
                writer.cancel()
            else:
                timer = loop.call_later(_SEND_SECONDS / 2, look)

        timer = loop.call_later(_SEND_SECONDS / 2, look)
        return lambda: timer.cancel()

    def _event(self, change: Change) -> bytes:
        if not self._accepted.shape:
            return self._printer.event(self._form, change, self._accepted.media)
        first, self._first = self._first, False
        return self._printer.shaped_event(self._form, change, self._accepted, self._include, first)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def copy(pieces: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send pieces as they come."""

    async def write() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    await _while_connected(asyncio.ensure_future(write()), receive)


async def _while_connected(writer: asyncio.Future[None], receive: Receive) -> None:
    """Let a writer finish, or end it when the client leaves."""
    listener = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((writer, listener), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (writer, listener):
            task.cancel()
        results = await asyncio.gather(writer, listener, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
