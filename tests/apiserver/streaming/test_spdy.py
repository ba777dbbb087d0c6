"""SPDY frames: a client of our own that compresses and cuts as it likes, and garbage."""

from __future__ import annotations

import asyncio
import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.apiserver.streaming.spdy import DICTIONARY, SpdyConnection, SpdyError
from tests.hostile.attackers import measured


class Pipe:
    """The bytes of a client, in pieces, and what the server answers."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces]
        self.written = b""
        self.closed = False

    @property
    def left(self) -> int:
        """How many pieces the server has not read."""
        return len(self._pieces)

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


class Client:
    """Makes frames as a client does, with one compressed stream of headers."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, number: int, headers: dict[str, str], fin: bool = False) -> bytes:
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", number, 0, 0, 0) + packed
        return struct.pack(">HHB", 0x8003, 1, int(fin)) + len(body).to_bytes(3, "big") + body

    def data(self, number: int, data: bytes, fin: bool = False) -> bytes:
        return struct.pack(">IB", number, int(fin)) + len(data).to_bytes(3, "big") + data


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2  # stands at the beginning of every compressed block


@given(cut=st.lists(st.integers(1, 40), min_size=1, max_size=60), sent=st.binary(max_size=300))
async def test_streams_are_the_same_however_their_bytes_are_cut(cut: list[int], sent: bytes) -> None:
    client = Client()
    whole = client.open(1, {"streamType": "stdin"}) + client.open(3, {"streamType": "error"}, fin=True)
    whole += client.data(1, sent) + client.data(1, b"", fin=True)
    pieces, at = [], 0
    while at < len(whole):
        size = cut[len(pieces) % len(cut)]
        pieces.append(whole[at : at + size])
        at += size
    connection = SpdyConnection(Pipe(*pieces), "jane")
    await connection.run()
    first, second = await connection.accept(), await connection.accept()
    assert first is not None
    assert second is not None
    assert (first.headers, second.headers) == ({"streamtype": "stdin"}, {"streamtype": "error"})
    received = b""
    while (piece := await first.read()) is not None:
        received += piece
    assert received == sent
    assert await second.read() is None
    assert await connection.accept() is None


async def test_answers_carry_what_a_client_must_know() -> None:
    ping = struct.pack(">HHB", 0x8003, 6, 0) + (4).to_bytes(3, "big") + b"\0\0\0\7"
    pipe = Pipe(Client().open(5, {}), ping)
    connection = SpdyConnection(pipe, "jane")
    await connection.run()
    assert pipe.written[:4] == b"\x80\x03\x00\x02"  # the reply to the stream
    assert pipe.written[8:12] == b"\0\0\0\5"
    assert pipe.written.endswith(ping)
    stream = await connection.accept()
    assert stream is not None
    pipe.written = b""
    await stream.write(b"x" * 70_000)
    await stream.end()
    assert [len(frame) for frame in frames(pipe.written)] == [8 + 65536, 8 + 4464, 8]
    assert frames(pipe.written)[-1] == b"\0\0\0\5\1\0\0\0"


def frames(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = 8 + int.from_bytes(data[5:8], "big")
        found.append(data[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"\x80\x02\x00\x01\0\0\0\0", "version 2"),
        (b"\0\0\0\1\0\xff\xff\xff", "too long"),
        (b"\x80\x03\x00\x01\0\0\0\4\0\0\0\1", "too few bytes"),
        (b"\x80\x03\x00\x01\0\0\0\x0e\0\0\0\1\0\0\0\0\0\0nope", "cannot be decompressed"),
        (Client().open(2, {}), "cannot be opened by a client"),
    ],
)
async def test_what_is_no_spdy_is_named(sent: bytes, problem: str) -> None:
    with pytest.raises(SpdyError, match=problem):
        await SpdyConnection(Pipe(sent), "jane").run()


async def test_headers_that_unpack_to_very_much_are_refused() -> None:
    with pytest.raises(SpdyError, match="longer than"):
        await SpdyConnection(Pipe(Client().open(1, {"a": "b" * 1_000_000})), "jane").run()


async def test_thousands_of_small_frames_take_turns() -> None:
    ping = struct.pack(">HHB", 0x8003, 6, 0) + (4).to_bytes(3, "big") + b"\0\0\0\7"
    client = Client()
    opened = b"".join(client.open(2 * n + 1, {f"{n}-{m}": "" for m in range(400)}) for n in range(300))
    for sent in (ping * 50_000, b"\0\0\0\1\0\0\0\0" * 50_000, opened):
        async with measured() as stall:
            await SpdyConnection(Pipe(sent), "jane").run()
        assert stall.longest < 0.06  # in one go they took 70 to 130 ms


async def test_what_nobody_reads_makes_the_client_wait() -> None:
    client = Client()
    pipe = Pipe(*(client.open(number, {}) for number in (1, 3)), *[client.data(1, b"x" * 100_000)] * 20)
    connection = SpdyConnection(pipe, "jane")
    running = asyncio.create_task(connection.run())
    first, second = await connection.accept(), await connection.accept()
    assert first is not None
    assert second is not None
    await asyncio.sleep(0.01)
    assert pipe.left > 15
    for _ in range(10):
        assert await first.read() == b"x" * 100_000
    await asyncio.sleep(0.01)
    assert 4 < pipe.left < 10
    first.ignore()
    await running
    assert pipe.left == 0


@given(st.lists(st.binary(max_size=60), max_size=8))
async def test_garbage_ends_the_connection_and_nothing_else(pieces: list[bytes]) -> None:
    pipe = Pipe(*(piece for piece in pieces if piece))
    connection = SpdyConnection(pipe, "jane")
    with suppress(SpdyError):
        await asyncio.wait_for(connection.run(), 5)
    await connection.leave()
    assert pipe.closed
