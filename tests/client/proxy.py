"""A wire that can be cut: forwards connections to a server until told to drop them."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Proxy:
    """Listens on a port of its own; `cut` drops all connections and refuses new ones until `mend`."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = parts.hostname, parts.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._whole = True

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        self._whole = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._whole = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        both = {writer, far_writer}
        self._writers |= both
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        self._writers -= both


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
