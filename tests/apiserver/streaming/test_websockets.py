"""WebSocket messages of a client that cuts them as it likes."""

from __future__ import annotations

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage

from dray.apiserver.limits import STREAM_MESSAGE
from dray.apiserver.streaming.websockets import WebSocket
from tests.apiserver.streaming.test_spdy import Pipe
from tests.hostile.attackers import measured


def parts(*sizes: int) -> bytes:
    """One message in parts of these sizes."""
    client = Connection(ConnectionType.CLIENT)
    last = len(sizes) - 1
    return b"".join(
        client.send(BytesMessage(data=b"x" * size, message_finished=number == last))
        for number, size in enumerate(sizes)
    )


@pytest.mark.parametrize("size", [0, 1])
async def test_a_message_in_thousands_of_parts_takes_turns(size: int) -> None:
    socket = WebSocket(Pipe(parts(*[size] * 20_000, 7)), "jane")
    async with measured() as stall:
        assert await socket.receive() == b"x" * (20_000 * size + 7)
    assert stall.longest < 0.06  # in one go, and adding up all parts for each, they took 4 s
    assert await socket.receive() is None


async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    pipe = Pipe(*[parts(STREAM_MESSAGE)], *[parts(STREAM_MESSAGE, 1)], parts(3))
    socket = WebSocket(pipe, "jane")
    assert len(await socket.receive() or b"") == STREAM_MESSAGE
    assert await socket.receive() is None
    assert pipe.closed
    assert pipe.left == 1
