"""A wire that can be cut: forwards connections to a server, or to one of several, until told to drop them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class Proxy:
    """Listens on a port of its own; `cut` drops all connections and refuses new ones until `mend`."""

    def __init__(self, *targets: str) -> None:
        self._targets = [(parts.hostname, parts.port) for parts in map(urlsplit, targets)]
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()
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
        await asyncio.gather(*self._connections)

    def cut(self) -> None:
        self._whole = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._whole = True

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = await self._connect() if self._whole else None
        if connection is None:
            writer.transport.abort()
            return
        far_reader, far_writer = connection
        both = {writer, far_writer}
        self._writers |= both
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        self._writers -= both

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the first target that listens, beginning with another one each time."""
        for _ in self._targets:
            self._targets.append(self._targets.pop(0))
            with suppress(OSError):
                return await asyncio.open_connection(*self._targets[-1])
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
