"""Sockets and TLS: uvicorn, told to hand the client's certificate to the application and to leave signals alone."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_IDLE_SECONDS = 120  # how long a connection may stay open between two requests
_FIRST_SECONDS = 30.0  # how long a new connection may take to say anything
_BACKLOG = 2048


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with the peer's certificate in the scope of every request."""

    certificate: dict[str, Any] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrower than the base
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert() if tls is not None else None
        self.timeout_keep_alive_task = self.loop.call_later(_FIRST_SECONDS, self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.certificate:
            self.scope["client_certificate"] = self.certificate  # type: ignore[typeddict-unknown-key]  # ours


class Tls:
    """The files that a server identifies itself with and believes clients by."""

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        self.certificate = certificate
        self.key = key
        self.authority = authority


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.stopping = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """uvicorn's own looks ten times a second whether there is something to do; with our options there never is."""
        await self.stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever runs several parts in one process handles signals for all of them


class HttpServer:
    """A listening server; `serve` runs until `stop`."""

    def __init__(self, app: Callable[..., Any], sock: socket.socket, tls: Tls | None) -> None:
        self._socket = sock
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # uvicorn would have to wake up for it
            proxy_headers=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=3,
            backlog=_BACKLOG,
            ssl_certfile=str(tls.certificate) if tls else None,
            ssl_keyfile=str(tls.key) if tls else None,
            ssl_ca_certs=str(tls.authority) if tls else None,
            ssl_cert_reqs=ssl.CERT_OPTIONAL if tls else ssl.CERT_NONE,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns once connections are accepted."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await self._server.listening.wait()

    async def stop(self) -> None:
        self._server.stopping.set()
        if self._task is not None:
            await self._task


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; OSError if the port is taken. Port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named, or asyncio leaves Nagle on and every answer waits 40 ms for an acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
