"""The certificate of a server that runs is renewed before it ends, and replaced files are served."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.security.certificates import LIFETIME, Keys
from dray.apiserver.wire.serving import HttpServer, ServingTls, listen
from dray.assembly.certificate import keep_certificate
from tests.waiting import eventually


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def served(port: int, keys: Keys) -> bytes:
    """The certificate that a new connection sees and believes."""
    trust = ssl.create_default_context(cafile=str(keys.authority_file))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[tuple[Keys, int, bytes]]:
    """A server whose certificate ends in ten days; the keys, the port and the certificate."""
    keys = Keys.open(tmp_path, now=datetime.now(UTC) - LIFETIME + timedelta(days=10))
    sock = listen("127.0.0.1", 0)
    server = HttpServer(hello, sock, ServingTls(keys.certificate_file, keys.key_file, keys.authority_file))
    await server.start()
    port = sock.getsockname()[1]
    before = await served(port, keys)
    keeping = asyncio.create_task(keep_certificate(keys, server, 0.02))
    yield keys, port, before
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await server.stop()


async def test_a_certificate_near_its_end_is_renewed_and_served(old: tuple[Keys, int, bytes]) -> None:
    keys, port, before = old

    async def is_another() -> bool:
        return await served(port, keys) != before

    await eventually(is_another)


async def test_files_that_cannot_be_used_leave_the_certificate_in_use(
    old: tuple[Keys, int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    keys, port, before = old

    async def renewed() -> bytes:
        now = await served(port, keys)
        return now if now != before else b""

    current = await eventually(renewed)
    keys.certificate_file.write_bytes(keys.certificate_file.read_bytes()[:-200])
    await eventually(lambda: "cannot be served" in caplog.text)
    assert await served(port, keys) == current
