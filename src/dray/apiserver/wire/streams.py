"""Endless responses: a watch as lines or frames of events, a growing log; until the client disconnects or time is up.

One task writes to the connection and another listens; the first to end ends the response. Long batches are sent in
pieces, each when the client has taken the previous one. `serving` drops clients that do not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import aclosing
from typing import Any

from dray.api.errors import ApiError
from dray.apiserver.read.storage import Form
from dray.apiserver.read.watching import WatchedChange
from dray.apiserver.wire.answers import AnswerWriter, error_event
from dray.apiserver.wire.negotiation import Accepted
from dray.apiserver.wire.pieces import gathered
from dray.background.turns import turns

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Stream:
    """Sends batches of changes as chunks of a response."""

    def __init__(
        self, printer: AnswerWriter, form: Form, accepted: Accepted, include: str, user: str, piece: int
    ) -> None:
        self._printer = printer
        self._form = form
        self._accepted = accepted
        self._include = include
        self._user = user
        self._piece = piece
        self._first = True

    async def run(self, changes: AsyncGenerator[list[WatchedChange], None], receive: Receive, send: Send) -> None:
        """Send all changes until they end or the client disconnects."""
        await _while_connected(asyncio.ensure_future(self._write(changes, send)), receive)

    async def _write(self, changes: AsyncGenerator[list[WatchedChange], None], send: Send) -> None:
        """Send all changes, and a final ERROR event if the watch fails."""
        await send({"type": "http.response.body", "body": b"", "more_body": True})  # sends the headers to the client
        try:
            async with aclosing(changes) as batches:
                async for batch in batches:
                    if len(batch) > 1:
                        await self._send(map(self._event, batch), send)
                    elif len(event := self._event(batch[0])) > self._piece:
                        await self._send((event,), send)
                    else:
                        await send({"type": "http.response.body", "body": event, "more_body": True})
        except ApiError as error:
            body = error_event(error, self._accepted.media)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, events: Iterable[bytes], send: Send) -> None:
        """Send encoded events in pieces, yielding to other users' work in between."""
        async with aclosing(turns().pieces(self._user, gathered(events, self._piece))) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})

    def _event(self, change: WatchedChange) -> bytes:
        """Return an encoded event in the accepted form."""
        if not self._accepted.shape:
            return self._printer.event(self._form, change, self._accepted.media)
        first, self._first = self._first, False
        return self._printer.shaped_event(self._form, change, self._accepted, self._include, first)


async def _disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def copy(pieces: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send pieces as they arrive, until they end or the client disconnects."""

    async def write() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    await _while_connected(asyncio.ensure_future(write()), receive)


async def _while_connected(writer: asyncio.Future[None], receive: Receive) -> None:
    """Wait until a writer finishes, or cancel it when the client disconnects. Raises the writer's error."""
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
