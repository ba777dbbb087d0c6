"""A gRPC server whose start is cancelled does not stay open."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from dray.rpc.services import start_server


@pytest.mark.parametrize("turns", range(1, 4))
async def test_a_start_that_is_cancelled_leaves_no_server(tmp_path: Path, turns: int) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix:{tmp_path / 'socket'}")
    starting = asyncio.ensure_future(start_server(server))
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    if cancelled:
        with pytest.raises(ConnectionRefusedError if (tmp_path / "socket").exists() else FileNotFoundError):
            await asyncio.open_unix_connection(str(tmp_path / "socket"))
    else:
        await server.stop(0)


async def test_a_server_that_was_started_answers(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix:{tmp_path / 'socket'}")
    await start_server(server)
    async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'socket'}") as channel:
        await channel.channel_ready()
    await server.stop(0)
