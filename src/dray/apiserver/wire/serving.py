"""Sockets and TLS: uvicorn, extended to pass the client certificate to the application and to ignore signals.

The cost of a connection before authentication is limited: handshakes, headers and idle times have deadlines, as do
clients that do not read. A deadline for headers or a body is set only if they do not arrive at once, so ordinary
requests pay nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dray.apiserver.limits import Limits
from dray.apiserver.streaming.duplex import Duplex
from dray.files import read_regular

_BACKLOG = 2048
_HIGH_WATER = 64 << 10  # bytes waiting to be sent, above which a writer waits
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HeadWithBody:
    """A transport that sends the headers of a response together with the body.

    This saves a TLS record and a system call. If no body follows at once, as in a watch, the headers are sent in the
    next turn of the loop. Everything else is delegated to the transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing  # called for every request, so cached

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data. The head of a response is held back until the body or the next turn of the loop."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self._send)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        head, self._head = self._head, b""
        if head and not self.is_closing():
            self._transport.write(head)


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines, and with the client certificate in the scope of every request."""

    certificate: dict[str, Any] | None = None
    limits = Limits()
    all_closed: asyncio.Event  # set when the last connection of the server closes

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0  # bytes received since the headers began, possibly with some of the body
        self._refused = False
        self._arrival: asyncio.TimerHandle | None = None  # deadline for headers or body
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._duplex: Duplex | None = None  # set once a stream has taken over the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # narrower than the base
        super().connection_made(HeadWithBody(transport, self.loop))  # type: ignore[arg-type]  # it behaves like one
        if len(self.connections) > self.limits.connections:
            self._leave()
            return
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        tls = transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert() if tls is not None else None
        self._arrival = self.loop.call_later(self.limits.head_seconds, self._leave)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._arrival, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self._arrival = self._unread_timer = None
        if self._duplex is not None:
            self._duplex.feed_end()
        super().connection_lost(exc)
        if not self.connections:
            self.all_closed.set()
        self._unset_keepalive_if_required()
        self.pipeline.clear()

    # Deadlines for received data

    def data_received(self, data: bytes) -> None:
        """Pass received data to the stream or the parser, and set the deadline for the rest of headers or body."""
        if self._refused or self.transport.is_closing():
            return
        if self._duplex is not None:
            self._duplex.feed(data)
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._refused or (self._in_head and not self._head_bytes):
            return
        if self._in_head and self._head_bytes > self.limits.head_bytes:
            self._refuse_head()
        elif self._arrival is None:
            seconds = self.limits.head_seconds if self._in_head else self._body_seconds()
            self._arrival = self.loop.call_later(seconds, self._leave)

    def _body_seconds(self) -> float:
        """Return the seconds that a body may take, by its length."""
        lengths = [value for name, value in self.headers if name == b"content-length" and value.isdigit()]
        size = min(int(lengths[0]), self.limits.body) if lengths else self.limits.body
        return self.limits.body_seconds + size / self.limits.body_bytes_a_second

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        if self.certificate:
            self.scope["client_certificate"] = self.certificate  # type: ignore[typeddict-unknown-key]  # ours

    def on_headers_complete(self) -> None:
        """Check the limits on headers, then start the request."""
        if self._refused:
            return
        headers = self.headers
        if len(headers) > self.limits.headers or (
            self._head_bytes > self.limits.head_bytes
            and len(self.url) + sum(len(name) + len(value) for name, value in headers) > self.limits.head_bytes
        ):
            self._refuse_head()
            return
        self._in_head = False
        self._head_bytes = 0
        self._arrived()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.scope["take_over"] = self._take_over  # type: ignore[typeddict-unknown-key]  # ours
        if len(self.pipeline) > self.limits.pipelined:
            self._leave()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()
            self._in_head = True
            self._arrived()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # rejected before its body arrived: the rest must arrive soon
        if self.cycle.more_body and self._arrival is None:
            self._arrival = self.loop.call_later(self.limits.head_seconds, self._leave)

    def _take_over(self, head: bytes) -> Duplex:
        """Answer an upgrade request with `head`. Returns the connection as a byte stream."""
        self.cycle.disconnected = True  # tells uvicorn to expect no response
        self._arrived()
        self.transport.write(head)
        self._duplex = Duplex(self.transport, self.flow.drain)
        return self._duplex

    def _refuse_head(self) -> None:
        """Answer 431 and close the connection."""
        self._refused = True
        self.transport.write(_HEAD_TOO_LARGE)
        self.transport.close()
        self._arrived()
        self._arrival = self.loop.call_later(self.limits.head_seconds, self._leave)

    def _arrived(self) -> None:
        """Cancel the deadline for headers or body."""
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _leave(self) -> None:
        """Close immediately. Unsent data is dropped, because a client that does not read would hold it."""
        self._refused = True
        self.transport.abort()

    # Clients that do not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.limits.unread_seconds, self._look)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _look(self) -> None:
        """Close the connection unless the client has read something since the last check.

        Otherwise schedules the next check.
        """
        waiting = self.transport.get_write_buffer_size()
        if waiting >= self._unread_bytes:
            self._leave()
            return
        self._unread_bytes = waiting
        self._unread_timer = self.loop.call_later(self.limits.unread_seconds, self._look)


class ServingTls:
    """Files for TLS: certificate and key of the server, and the authority of client certificates."""

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        self.certificate = certificate
        self.key = key
        self.authority = authority

    def check(self) -> None:
        """Raise OSError or ssl.SSLError if the files cannot be used."""
        for file in (self.certificate, self.key, self.authority):
            read_regular(file)  # otherwise loading a FIFO or device could block forever
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)


class _Server(uvicorn.Server):
    """uvicorn's server with a deadline for TLS handshakes and without periodic wake-ups."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits
        self.stopping = asyncio.Event()
        self.listening = asyncio.Event()
        self._all_closed = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen. Like uvicorn's, with a handshake deadline, which uvicorn has no option for."""
        config, loop = self.config, asyncio.get_running_loop()
        handshake = self._limits.handshake_seconds if config.ssl else None
        protocol = type("Protocol", (Protocol,), {"limits": self._limits, "all_closed": self._all_closed})
        make = partial(protocol, config=config, server_state=self.server_state, app_state={}, _loop=loop)
        self.servers = [
            await loop.create_server(
                make, sock=sock, ssl=config.ssl, backlog=config.backlog, ssl_handshake_timeout=handshake
            )
            for sock in sockets or ()
        ]
        self.started = True
        self.listening.set()

    async def main_loop(self) -> None:
        """Wait until the server is stopped. uvicorn's own wakes up ten times per second, which is not needed here."""
        await self.stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop as soon as all connections and tasks have ended. Like uvicorn's, without its pauses of 100 ms."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        state = self.server_state
        for connection in [*state.connections]:
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                if state.connections:
                    self._all_closed.clear()
                    await self._all_closed.wait()
                if state.tasks:
                    await asyncio.wait([*state.tasks])
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            for task in [*state.tasks]:
                task.cancel("the server stops")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the process handles signals for all components


class HttpServer:
    """A listening server, from `start` to `stop`."""

    def __init__(
        self, app: Callable[..., Any], sock: socket.socket, tls: ServingTls | None, limits: Limits | None = None
    ) -> None:
        """Raises OSError or ssl.SSLError for TLS files that cannot be used."""
        limits = limits or Limits()
        self._socket = sock
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # errors of clients are sent to them, not logged
            access_log=False,
            server_header=False,
            date_header=False,  # would make uvicorn wake up periodically
            proxy_headers=False,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=3,
            backlog=_BACKLOG,
            ssl_certfile=str(tls.certificate) if tls else None,
            ssl_keyfile=str(tls.key) if tls else None,
            ssl_ca_certs=str(tls.authority) if tls else None,
            ssl_cert_reqs=ssl.CERT_OPTIONAL if tls else ssl.CERT_NONE,
        )
        config.load()
        self._server = _Server(config, limits)
        self._tls = tls
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once connections are accepted. Raises the error that prevents the start."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._task.done():
            self._task.result()

    def reload_certificate(self) -> None:
        """Use the certificate files as they are now for new connections.

        Raises OSError or ssl.SSLError for unusable files.
        """
        context = self._server.config.ssl
        if self._tls is not None and context is not None:
            self._tls.check()
            context.load_cert_chain(self._tls.certificate, self._tls.key)

    async def stop(self) -> None:
        """Stop the server and wait until it has ended."""
        self._server.stopping.set()
        if self._task is not None:
            await self._task


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port. Raises OSError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without an explicit protocol asyncio does not disable Nagle's algorithm, and each answer waits 40 ms.
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
