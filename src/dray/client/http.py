"""The client over HTTP: for servers in another process, of this project or any Kubernetes.

Connections are kept and shared; answers that say "later" are retried after the time they name; a refused token is
renewed once. Connection failures are not retried here: nobody knows whether a write happened, and informers
retry reads themselves. Left out: choosing a configuration (`config`) and reading bytes (`codec`).
"""

from __future__ import annotations

import math
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import msgspec

from dray.api.calls import Patch, PatchKind
from dray.api.errors import Expired, MethodNotAllowed, NotFound, ServiceUnavailable
from dray.api.pace import Pace
from dray.api.resources import Resource
from dray.api.types.core import Pod
from dray.api.wire import Tree
from dray.client.address import name_in, namespace_in, path, required_name
from dray.client.clock import Clock, SystemClock
from dray.client.codec import Codec
from dray.client.config import Config, ConfigError
from dray.client.errors import from_answer
from dray.client.interface import Batch, Object, Page, T, resource_of
from dray.client.status import status_steps
from dray.client.tls import as_kubernetes
from dray.client.versions import ServedVersions

if TYPE_CHECKING:
    import aiohttp

_JSON = "application/json"
# A server that says "later" this often in a row is not going to answer.
_TRIES = 6
_LATER = (429, 503)
_RETRY_LIMIT_SECONDS = 30.0
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0
# The server ends a watch at its timeout; a connection that is silent for longer than that is dead.
_STREAM_GRACE_SECONDS = 30.0
# Servers send a bookmark every 60 to 75 seconds: a client that misses two of them has most likely lost the connection.
# A server without bookmarks is only asked to go on from the same version.
_BOOKMARKED_SECONDS = 150.0
# The kernel notices a peer that is gone without a word: it asks after this many seconds of silence, then again, and
# gives up after so many questions. What a system does not know is left out.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 5}

Query = dict[str, str]


class Headers(Protocol):
    """Headers of an answer, by name in any case."""

    def get(self, name: str, default: str, /) -> str: ...


class ServerAnswer(NamedTuple):
    """A whole answer of a server."""

    status: int
    headers: Headers
    data: bytes


Fence = Callable[[], None]
"""Raises an ApiError if nothing may be written any more."""


class Http:
    """A `Client` for one server and user. `fence` is asked before each attempt to write; `read_only` sends no write at all."""

    def __init__(
        self, config: Config, *, clock: Clock | None = None, fence: Fence | None = None, read_only: bool = False
    ) -> None:
        self.config = config
        self._read_only = read_only
        self.fence = fence
        self._clock = clock or SystemClock()
        self._pace = Pace(config.qps, max(config.burst, 1)) if config.qps > 0 else None
        self._session: aiohttp.ClientSession | None = None
        self._versions = ServedVersions(lambda path: self._send("GET", path))
        self._codecs: dict[tuple[Resource, str], Codec] = {}
        self._tls = _tls(config)

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def serves(self, type_: type[Object]) -> bool:
        return await self._versions.serves(resource_of(type_))

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, path: str) -> bytes:
        """The document at a path of the server that is no object: /version, /metrics."""
        return await self._send("GET", path)

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        async with self._speaking(type_) as codec:
            path = _path(codec, namespace, required_name(codec.resource, name))
            return cast(T, codec.object(await self._send("GET", path)))

    async def list(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        query = _query(labelSelector=labels, fieldSelector=fields, resourceVersion=resource_version)
        async with self._speaking(type_) as codec:
            if limit or continue_:
                return await self._page(codec, namespace, query, limit, continue_)
            return await self._pages(codec, namespace, query)

    async def create(
        self, type_: type[T], obj: Object | Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        async with self._speaking(type_) as codec:
            tree = obj if isinstance(obj, dict) else msgspec.to_builtins(obj)
            namespace = namespace_in(codec.resource, tree, namespace)
            path = _path(codec, namespace, name if subresource else "", subresource)
            body = msgspec.json.encode(tree) if subresource else codec.encode(tree)
            return cast(T, codec.object(await self._send("POST", path, body=body)))

    async def update(
        self, type_: type[T], tree: Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        async with self._speaking(type_) as codec:
            namespace = namespace_in(codec.resource, tree, namespace)
            path = _path(codec, namespace, name_in(codec.resource, tree, name), subresource)
            return cast(T, codec.object(await self._send("PUT", path, body=codec.encode(tree))))

    async def patch(
        self,
        type_: type[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> T:
        query = _query(fieldManager=manager, force="true" if force else "")
        async with self._speaking(type_) as codec:
            path = _path(codec, namespace, required_name(codec.resource, name), subresource)
            body = codec.encode_patch(patch)
            return cast(T, codec.object(await self._send("PATCH", path, query, body=body, media_type=kind.value)))

    async def patch_status(self, obj: T, status: Any) -> T:
        meta, steps = obj.metadata, status_steps(obj, status)
        if not steps:
            return obj
        async with self._speaking(type(obj)) as codec:
            path = _path(codec, meta.namespace, required_name(codec.resource, meta.name), "status")
            body = msgspec.json.encode(steps)
            return cast(T, codec.object(await self._send("PATCH", path, body=body, media_type=PatchKind.JSON.value)))

    async def delete(
        self,
        type_: type[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        body = _delete_options(grace, propagation, uid=uid, resourceVersion=resource_version)
        async with self._speaking(type_) as codec:
            await self._send("DELETE", _path(codec, namespace, required_name(codec.resource, name)), body=body)

    async def delete_collection(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        query = _query(labelSelector=labels, fieldSelector=fields)
        async with self._speaking(type_) as codec:
            await self._send("DELETE", _path(codec, namespace), query, body=_delete_options(grace, propagation))

    async def watch(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        timeout: float | None = None,
    ) -> AsyncGenerator[Batch[T], None]:
        query = _query(
            watch="true",
            labelSelector=labels,
            fieldSelector=fields,
            resourceVersion=resource_version,
            allowWatchBookmarks="true" if bookmarks else "",
            timeoutSeconds="" if timeout is None else str(math.ceil(timeout)),
        )
        async with (
            self._speaking(type_) as codec,
            aclosing(self._stream(_path(codec, namespace), query, _silence(timeout, bookmarks))) as chunks,
        ):
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                events, error = codec.events([line for line in lines if line])
                if events:
                    yield events
                if error is not None:
                    raise error

    async def log(
        self, name: str, namespace: str, *, container: str = "", follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """What a container of a pod has written, in pieces as they come; only over HTTP."""
        query = _query(
            container=container, follow="true" if follow else "", tailLines="" if tail is None else str(tail)
        )
        path = _path(self._codec(resource_of(Pod), "v1"), namespace, name, "log")
        async with aclosing(self._stream(path, query, None)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def _speaking(self, type_: type[Object]) -> AsyncIterator[Codec]:
        """The codec for the version that the server has; a missing path makes the client ask again next time."""
        resource = resource_of(type_)
        codec = self._codec(resource, await self._versions.of(resource))
        try:
            yield codec
        except NotFound as error:
            if not error.details.get("name"):  # the path is missing, not the object
                self._versions.forget(resource)
            raise

    def _codec(self, resource: Resource, version: str) -> Codec:
        codec = self._codecs.get((resource, version))
        if codec is None:
            codec = self._codecs[resource, version] = Codec(resource, version)
        return codec

    async def _page(self, codec: Codec, namespace: str, query: Query, limit: int, continue_: str) -> Page[Any]:
        paged = query | _query(limit=str(limit) if limit else "") | _query(**{"continue": continue_})
        if continue_:
            paged.pop("resourceVersion", None)  # the token says it
        return codec.page(await self._send("GET", _path(codec, namespace), paged))

    async def _pages(self, codec: Codec, namespace: str, query: Query) -> Page[Any]:
        """A whole list, read in pages; when the state it started from is gone, in one piece."""
        first = page = await self._page(codec, namespace, query, self.config.page_size, "")
        items = [*page.items]
        try:
            while page.continue_:
                page = await self._page(codec, namespace, query, self.config.page_size, page.continue_)
                items += page.items
        except Expired:
            return await self._page(codec, namespace, query, 0, "")
        return Page(tuple(items), first.resource_version)

    async def _send(
        self, method: str, path: str, query: Query | None = None, *, body: bytes = b"", media_type: str = _JSON
    ) -> bytes:
        """One request and its retries; raises what the answer means."""
        if self._read_only and method != "GET":
            raise MethodNotAllowed(f"not sent: {method} {path}, this client only reads")
        renewed = False
        for attempt in range(_TRIES):
            await self._keep_pace()
            answer = await self._exchange(method, path, query, body, media_type)
            if answer.status < 400:
                return answer.data
            if answer.status == 401 and not renewed:
                renewed = await self.config.credentials.renew()
                if renewed:
                    continue
            delay = _retry_after(answer.status, answer.headers)
            if delay is None or attempt == _TRIES - 1:
                break
            await self._clock.sleep(delay)
        raise from_answer(answer.status, answer.data)

    async def _exchange(
        self, method: str, path: str, query: Query | None, body: bytes, media_type: str
    ) -> ServerAnswer:
        """One request and its whole answer. Raises ServiceUnavailable."""
        async with self._request(method, path, query, body, media_type) as answer:
            return ServerAnswer(answer.status, cast(Headers, answer.headers), await answer.read())

    async def _headers(self, media_type: str = "") -> Sequence[tuple[str, str]]:
        """The headers of a request; of a body with its type."""
        authorization = await self.config.credentials.header()
        told = {"Authorization": authorization, "Content-Type": media_type}
        own = [("Accept", _JSON), ("User-Agent", self.config.user_agent), *self.config.headers]
        return own + [(name, value) for name, value in told.items() if value]

    async def _keep_pace(self) -> None:
        """Wait until the configured rate allows the next request. Watches do not count, as in Kubernetes' clients."""
        if self._pace is not None and (delay := self._pace.delay(self._clock.monotonic())):
            await self._clock.sleep(delay)

    async def _stream(self, path: str, query: Query, silence: float | None) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer as they come; silence ends it once it has begun, as the server might at any time."""
        for attempt in range(_TRIES):
            async with self._request("GET", path, query, silence=silence) as answer:
                if answer.status < 400:
                    with suppress(TimeoutError):
                        async for chunk in answer.content.iter_any():
                            yield chunk
                    return
                data, delay = await answer.read(), _retry_after(answer.status, cast(Headers, answer.headers))
            if delay is None or attempt == _TRIES - 1:
                raise from_answer(answer.status, data)
            await self._clock.sleep(delay)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes = b"",
        media_type: str = _JSON,
        silence: float | None = _READ_SECONDS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send; a connection that fails, now or while the answer is read, becomes ServiceUnavailable."""
        import aiohttp

        headers = await self._headers(media_type if body else "")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)
        try:
            async with self._open().request(
                method,
                self.config.server + path,
                params=query or None,
                data=body or None,
                headers=headers,
                timeout=timeout,
                server_hostname=self.config.server_name or None,
                proxy=self.config.proxy or None,
                trace_request_ctx=self.fence if method != "GET" else None,
            ) as answer:
                yield answer
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ServiceUnavailable(f"{method} {self.config.server}{path}: {_why(error)}") from error

    def _open(self) -> aiohttp.ClientSession:
        """The session; made at first use, since it belongs to an event loop."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, socket_factory=_socket),
                auto_decompress=True,
                trace_configs=[_fencing()] if self.fence is not None else None,
            )
        return self._session


def _path(codec: Codec, namespace: str, name: str = "", subresource: str = "") -> str:
    return path(codec.resource, codec.version, namespace, name, subresource)


def _fencing() -> aiohttp.TraceConfig:
    """Ask the fence of a request when its connection is there, which may take long, and right before it is sent."""

    import aiohttp

    async def ask(session: aiohttp.ClientSession, context: SimpleNamespace, _: object) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(ask)
    tracing.on_connection_create_end.append(ask)
    return tracing


def _query(**parameters: str) -> Query:
    return {key: value for key, value in parameters.items() if value}


def _silence(timeout: float | None, bookmarks: bool) -> float | None:
    """How long a watch may say nothing before its connection counts as dead; None: for ever."""
    limits = [] if timeout is None else [timeout + _STREAM_GRACE_SECONDS]
    if bookmarks:
        limits.append(_BOOKMARKED_SECONDS)
    return min(limits, default=None)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if option := getattr(socket, name, None):
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _delete_options(grace: int | None, propagation: str | None, **preconditions: str | None) -> bytes:
    conditions = {key: value for key, value in preconditions.items() if value is not None}
    options: Tree = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if conditions:
        options["preconditions"] = conditions
    return msgspec.json.encode(options)


def _why(error: Exception) -> str:
    """Why a connection failed, in the words of the system where it has some: `Connection refused`."""
    import aiohttp

    number = error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    if number is not None and not isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorDNSError):
        return os.strerror(number)
    return str(error) or type(error).__name__


def _retry_after(status: int, headers: Headers) -> float | None:
    """How long the server asks to wait before the same request may succeed; None when it does not ask."""
    text = headers.get("Retry-After", "")
    if status not in _LATER or not text.isdecimal():
        return None
    return min(float(text), _RETRY_LIMIT_SECONDS)


def _tls(config: Config) -> ssl.SSLContext | bool:
    """How to trust the server and show who we are; True is the library's default."""
    if not config.server.startswith("https"):
        return True
    try:
        context = as_kubernetes(ssl.create_default_context(cadata=config.ca.decode() if config.ca else None))
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if config.certificate:
            _load_certificate(context, config)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(f"the certificates for {config.server} cannot be used: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, config: Config) -> None:
    """The ssl module reads certificates from files only."""
    with tempfile.NamedTemporaryFile(prefix="dray-") as file:
        file.write(config.certificate + b"\n" + config.key)
        file.flush()
        context.load_cert_chain(file.name)
