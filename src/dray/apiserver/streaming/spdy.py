"""The part of SPDY/3.1 that kubectl and client libraries use: streams with headers, data in both directions, ends.

Go's library does not use flow control, so there is none here. Header blocks are compressed with one zlib stream per
direction, initialized with the protocol's dictionary.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress

from dray.apiserver.limits import STREAM_FRAME, STREAM_HEADERS, STREAM_WAITING, STREAMS
from dray.apiserver.streaming.duplex import Bytes
from dray.background.turns import Steps

_WORDS = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
]
_REST = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS, *_REST)) + _TAIL.encode()

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 0x01
_VERSION = 3
_FRAME_BYTES = 64  # memory of a waiting frame besides its data
_DATA_MOST = 64 << 10  # maximum bytes in a sent frame
_PROTOCOL_ERROR, _REFUSED = 1, 3


class SpdyError(ConnectionError):
    """The peer violates SPDY/3.1. The text has the reason."""


class SpdyStream:
    """One stream opened by the peer."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._number = number
        self.headers = headers
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()  # the connection limits its content
        self._sent_end = False
        self.fed_end = False
        self.received_end = False
        self.deaf = False

    async def read(self) -> bytes | None:
        """Return the next data, or None at the end. Waits for data."""
        if self.received_end and self._incoming.empty():
            return None
        data = await self._incoming.get()
        if data is None:
            self.received_end = True
        else:
            self._connection.taken(len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Send data in frames."""
        for start in range(0, len(data), _DATA_MOST):
            await self._connection.send_data(self._number, data[start : start + _DATA_MOST], 0)

    async def end(self) -> None:
        """Send the end of this side's data, once."""
        if not self._sent_end:
            self._sent_end = True
            await self._connection.send_data(self._number, b"", _FIN)

    def feed(self, data: bytes | None) -> None:
        """Add received data; None marks the end."""
        self._incoming.put_nowait(data)

    def ignore(self) -> None:
        """Drop received data and all data still to come, because no reader will read it."""
        self.deaf = True
        while not self._incoming.empty():
            if (left := self._incoming.get_nowait()) is not None:
                self._connection.taken(len(left))


class SpdyConnection:
    """Server side of a connection. `run` reads it, `accept` returns the streams that the peer opens."""

    def __init__(self, stream: Bytes, user: str) -> None:
        self._stream = stream
        self._steps = Steps(user)
        self._waiting = 0  # received bytes of all streams that have not been read
        self._room = asyncio.Event()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._buffer = bytearray()

    async def accept(self) -> SpdyStream | None:
        """Return the next stream opened by the peer, or None when the connection has ended."""
        return await self._opened.get()

    async def run(self) -> None:
        """Read frames until the peer disconnects. Raises SpdyError for a malformed frame.

        In the end all streams end, and `accept` returns None.
        """
        try:
            while data := await self._stream.read():
                self._buffer += data
                await self._steps.begin()
                while frame := self._next_frame():
                    await self._take(*frame)
                    await self._steps.step()
                self._steps.end()
        finally:
            for stream in self._streams.values():
                stream.received_end = True
                stream.feed(None)
            self._opened.put_nowait(None)

    def _next_frame(self) -> tuple[bytes, bytes] | None:
        """Remove the next complete frame from the buffer and return its head (8 bytes) and body.

        Returns None if the buffer has no complete frame. Raises SpdyError if the frame is too long.
        """
        if len(self._buffer) < 8:
            return None
        size = int.from_bytes(self._buffer[5:8], "big")
        if size > STREAM_FRAME:
            raise SpdyError(f"a frame of {size} bytes is too long")
        if len(self._buffer) < 8 + size:
            return None
        head, body = bytes(self._buffer[:8]), bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        return head, body

    async def _take(self, head: bytes, body: bytes) -> None:
        """Process one received frame: data, a new stream, a ping or a reset. Raises SpdyError if it is malformed.

        `head` are the first 8 bytes.
        """
        if not head[0] & 0x80:
            await self._data(int.from_bytes(head[:4], "big"), head[4], body)
            return
        version, kind = int.from_bytes(head[:2], "big") & 0x7FFF, int.from_bytes(head[2:4], "big")
        if version != _VERSION:
            raise SpdyError(f"version {version} of SPDY, expected 3")
        if kind == _SYN_STREAM:
            await self._open(head[4], body)
        elif kind == _PING:
            await self._stream.write(_control(_PING, body[:4]))
        elif kind == _RST_STREAM and len(body) >= 4:
            await self._data(int.from_bytes(body[:4], "big") & 0x7FFFFFFF, _FIN, b"")
        # Settings, window updates, headers and goodbyes need no answer.

    async def _open(self, flags: int, body: bytes) -> None:
        """Register a stream that the peer opens and reply, or refuse it above the limit.

        Raises SpdyError if the frame is too short, or the stream's number is even or in use.
        """
        if len(body) < 10:
            raise SpdyError("a stream is opened with too few bytes")
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        headers = self._headers(body[10:])
        if number % 2 == 0 or number in self._streams:
            raise SpdyError(f"stream {number} cannot be opened by a client, or is open")
        if len(self._streams) >= STREAMS:
            await self._stream.write(_control(_RST_STREAM, struct.pack(">II", number, _REFUSED)))
            return
        stream = self._streams[number] = SpdyStream(self, number, headers)
        reply = struct.pack(">I", number) + self._compressed({})
        await self._stream.write(_control(_SYN_REPLY, reply))
        if flags & _FIN:
            stream.fed_end = True
            stream.feed(None)
        self._opened.put_nowait(stream)

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        """Pass received data, or the end of the data, to a stream. Waits while too much data is unread."""
        stream = self._streams.get(number)
        if stream is None or stream.deaf:
            return  # closed while the data was in transit
        if body:
            await self._make_room(len(body))
            stream.feed(body)
        if flags & _FIN and not stream.fed_end:
            stream.fed_end = True
            stream.feed(None)

    async def _make_room(self, size: int) -> None:
        """Wait while too many bytes are unread. The client then has to wait too, because the connection is not read."""
        while self._waiting > STREAM_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting += size + _FRAME_BYTES

    def taken(self, size: int) -> None:
        """Record that a reader took that many bytes of a stream."""
        self._waiting -= size + _FRAME_BYTES
        self._room.set()

    def forget(self, stream: SpdyStream) -> None:
        """Remove a stream that has ended on both sides."""
        self._streams.pop(stream._number, None)
        stream.ignore()

    async def refuse(self, stream: SpdyStream) -> None:
        """Remove a stream and tell the peer that it is refused."""
        self.forget(stream)
        await self._stream.write(_control(_RST_STREAM, struct.pack(">II", stream._number, _REFUSED)))

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        await self._stream.write(struct.pack(">IB", number, flags) + len(data).to_bytes(3, "big") + data)

    async def leave(self) -> None:
        """Send a goodbye and close the connection."""
        with suppress(ConnectionError):  # the peer has already closed it
            await self._stream.write(_control(_GOAWAY, struct.pack(">II", max(self._streams, default=0), 0)))
        self._stream.close()

    # -- header blocks

    def _headers(self, block: bytes) -> dict[str, str]:
        """Return the headers in a compressed block.

        Raises SpdyError if the block is malformed or too long.
        """
        try:
            data = self._inflate.decompress(block, STREAM_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"a header block cannot be decompressed: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"a header block is longer than {STREAM_HEADERS} bytes")
        return _read_pairs(data)

    def _compressed(self, headers: Mapping[str, str]) -> bytes:
        """Return headers as a compressed block."""
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        return self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, body: bytes) -> bytes:
    """Return a control frame without flags."""
    return struct.pack(">HHB", 0x8000 | _VERSION, kind, 0) + len(body).to_bytes(3, "big") + body


def _read_pairs(data: bytes) -> dict[str, str]:
    """Return the headers in a decompressed block: names and values, each preceded by its length.

    Names are in lower case. Raises SpdyError if the block ends too early.
    """
    words: list[str] = []
    at = 4
    count = int.from_bytes(data[:4], "big")
    for _ in range(2 * count):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise SpdyError("a header block ends in the middle of a word")
        words.append(data[at + 4 : at + 4 + size].decode("latin-1"))
        at += 4 + size
    return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}
