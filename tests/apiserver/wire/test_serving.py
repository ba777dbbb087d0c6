"""How answers go out over a connection."""

from __future__ import annotations

import asyncio
import socket
import ssl

from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import serving

PODS = "/api/v1/namespaces/default/pods"


def first_record(port: int, authority: str, token: str, path: str) -> bytes:
    """What the first TLS record of an answer has: reading never goes beyond the end of one."""
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        connection.sendall(head.encode())
        return connection.recv(1 << 16)


async def test_a_short_answer_is_one_record(keys: Keys) -> None:
    async with serving(keys) as http:
        port = int(http.url.rpartition(":")[2])
        data = await asyncio.to_thread(first_record, port, str(keys.authority_file), http.token, PODS)
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert b'"kind":"PodList"' in body


async def test_the_head_of_a_watch_waits_for_no_event(keys: Keys) -> None:
    async with serving(keys) as http:
        port = int(http.url.rpartition(":")[2])
        watch = f"{PODS}?watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
        data = await asyncio.to_thread(first_record, port, str(keys.authority_file), http.token, watch)
        assert data.startswith(b"HTTP/1.1 200 OK")
