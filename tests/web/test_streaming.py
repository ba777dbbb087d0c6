"""A page that does not read is told to start again, and costs no more than a bound."""

from __future__ import annotations

import asyncio
import json
import socket

from dray.api.types.core import Node
from dray.web.streaming import MOST_BYTES, OpenPage, event
from tests.waiting import eventually
from tests.web.serving import Browser, Served, device, publish


async def _rest(page: OpenPage) -> list[bytes]:
    return [message async for message in page.messages()]


async def test_messages_come_in_order_and_end_with_a_reason() -> None:
    page = OpenPage()
    page.put(event("rows", {"seq": 1}))
    messages = page.messages()
    assert await anext(messages) == b'event: rows\ndata: {"seq":1}\n\n'
    page.put(event("rows", {"seq": 2}))
    page.end("closing")
    page.put(event("rows", {"seq": 3}))
    assert [message async for message in messages] == [b'event: bye\ndata: {"code":"closing"}\n\n']


async def test_a_page_that_is_too_far_behind_is_told_to_start_again() -> None:
    page = OpenPage()
    piece = b"x" * (1 << 20)
    for _ in range(MOST_BYTES // len(piece)):
        page.put(piece)
    assert not page.ended
    page.put(piece)
    assert await _rest(page) == [event("bye", {"code": "slow-reader"})]


async def test_text_with_line_breaks_stays_in_one_line() -> None:
    message = event("rows", {"name": "a\nb\r\u2028"})
    assert message.count(b"\n") == 3
    assert json.loads(message.split(b"data: ")[1])["name"] == "a\nb\r\u2028"


async def test_a_silent_page_over_a_socket_is_dropped_and_the_others_go_on(server: Served, admin: Browser) -> None:
    await publish(server.client, "n1", device("gpu-0"))
    async with admin.page() as other:
        picture = server.picture()
        [reads] = picture.pages
        silent = await _silent(server, admin)
        try:
            await eventually(lambda: len(picture.pages) == 2)
            [page] = picture.pages - {reads}
            await eventually(lambda: _flood(page))
            await server.client.patch(Node, "n1", {"metadata": {"labels": {"last": "one"}}})
            await other.wait(lambda: "last=one" in other.strings)
            assert await eventually(lambda: silent.read()) == b"slow-reader"
        finally:
            silent.close()
        await eventually(lambda: picture.pages == {reads})


def _flood(page: OpenPage) -> bool:
    """What a busy picture puts for a page that takes nothing."""
    page.put(event("sample", "x" * (1 << 20)))
    return page.ended


class _Silent:
    """A page that reads nothing until it is asked to."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._tail = b""

    async def read(self) -> bytes:
        """Read what there is; the reason of the end, once it is there."""
        try:
            self._tail = (self._tail + self._socket.recv(1 << 20))[-200:]
        except BlockingIOError:
            return b""
        return b"slow-reader" if b'event: bye\ndata: {"code":"slow-reader"}' in self._tail else b""

    def close(self) -> None:
        self._socket.close()


async def _silent(server: Served, admin: Browser) -> _Silent:
    [cookie] = admin.session.cookie_jar
    head = f"Host: 127.0.0.1:{server.port}\r\nCookie: {cookie.key}={cookie.value}"
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(
        sock, f"GET /dashboard/api/stream HTTP/1.1\r\n{head}\r\n\r\n".encode()
    )
    return _Silent(sock)
