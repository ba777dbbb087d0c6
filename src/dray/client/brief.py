"""HTTP client for short commands that send a few requests and exit.

It uses Python's standard library, because importing the library of the long-lived client takes longer than most
of these commands may run. Requests are sent from a few threads, each on its own connection. Watches and logs are
read as in `Http`. Proxies, and server names that differ from the address, are not supported; `client_for` chooses
`Http` for these.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urlsplit

from dray.api.errors import ServiceUnavailable
from dray.client.config import Config
from dray.client.http import Http, HttpRequest, ServerAnswer

_CONNECTIONS = 4
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0


def client_for(config: Config) -> Http:
    """Return a client for a short-lived command: BriefHttp if it supports the configuration, otherwise Http."""
    return Http(config) if config.proxy or config.server_name else BriefHttp(config)


class BriefHttp(Http):
    """A `Client` whose requests use only Python's standard library."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._threads = ThreadPoolExecutor(_CONNECTIONS, "request")
        self._idle: list[http.client.HTTPConnection] = []

    async def aclose(self) -> None:
        await super().aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: HttpRequest) -> ServerAnswer:
        method, path, query, body, _ = request
        headers = await self._headers(request)
        target = f"{urlsplit(self.config.server).path}{path}{f'?{urlencode(query)}' if query else ''}"
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._ask, method, target, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise ServiceUnavailable(f"{method} {self.config.server}{path}: {_why(error)}") from error

    def _ask(self, method: str, target: str, body: bytes, headers: Sequence[tuple[str, str]]) -> ServerAnswer:
        """Send one request and read the whole response. Runs in a thread, on a connection that no other request uses.

        After any error, the connection is closed and the error raised again.
        """
        connection = self._idle.pop() if self._idle else self._connected()
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return ServerAnswer(answer.status, answer.headers, data)

    def _connected(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.config.server)
        host = parts.hostname or ""
        made = (
            http.client.HTTPSConnection(host, parts.port, timeout=_CONNECT_SECONDS, context=self._tls)
            if isinstance(self._tls, ssl.SSLContext)
            else http.client.HTTPConnection(host, parts.port, timeout=_CONNECT_SECONDS)
        )
        made.connect()
        made.sock.settimeout(_READ_SECONDS)
        return made


def _why(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__
