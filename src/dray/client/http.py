"""HTTP client for servers in other processes: dray or any Kubernetes.

Connections are pooled. Responses that ask to retry later are retried after the given time; a rejected token is
renewed once. Failed connections are not retried here, because a write may or may not have been done; informers
retry reads themselves. `config` selects the configuration, `codec` decodes the bytes.
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
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from dray.api.calls import (
    AnsweredByObject,
    AnsweredCall,
    AnyDeleteCall,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    GetCall,
    ListCall,
    ObjectCall,
    PartCall,
    PatchCall,
    PatchKind,
    StatusCall,
    UpdateCall,
    WatchCall,
)
from dray.api.errors import Expired, MethodNotAllowed, NotFound, ServiceUnavailable
from dray.api.pace import Pace
from dray.api.resources import Resource
from dray.api.types.core import Pod
from dray.api.wire import Tree
from dray.client.clock import Clock, SystemClock
from dray.client.codec import Codec
from dray.client.config import Config, ConfigError
from dray.client.errors import from_answer
from dray.client.interface import Client, EventBatch, Object, Page, T, resource_of
from dray.client.status import status_steps
from dray.client.tls import as_kubernetes
from dray.client.versions import ServedVersions

if TYPE_CHECKING:
    import aiohttp

_JSON = "application/json"
# Maximum attempts of a request that the server asks to retry later.
_TRIES = 6
_LATER = (429, 503)
_RETRY_LIMIT_SECONDS = 30.0
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 60.0
# The server ends a watch at its timeout. A connection that is silent for this much longer is dead.
_STREAM_GRACE_SECONDS = 30.0
# Servers send a bookmark every 60 to 75 seconds, so a client that misses two has most likely lost the connection.
# With a server that sends no bookmarks, the watch just restarts from the same version.
_BOOKMARKED_SECONDS = 150.0
# TCP keep-alive detects a peer that has disappeared: the first probe after 30 s of silence, then one every 15 s, and the
# connection fails after 5 probes. Options that the system does not support are skipped.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 5}

Query = dict[str, str]


class Headers(Protocol):
    """Headers of a response, with case-insensitive names."""

    def get(self, name: str, default: str, /) -> str: ...


class HttpRequest(NamedTuple):
    """One request to a server."""

    method: str
    path: str
    query: Query | None = None
    body: bytes = b""
    media_type: str = _JSON


class ServerAnswer(NamedTuple):
    """A complete response of a server."""

    status: int
    headers: Headers
    data: bytes


Fence = Callable[[], None]
"""Raises an ApiError if this process must no longer write."""


class Http(Client):
    """A `Client` for one server and user. `fence` is called before each write; `read_only` prevents all writes."""

    def __init__(
        self, config: Config, *, clock: Clock | None = None, fence: Fence | None = None, read_only: bool = False
    ) -> None:
        self.config = config
        self._read_only = read_only
        self.fence = fence
        self._clock = clock or SystemClock()
        self._pace = Pace(config.qps, max(config.burst, 1)) if config.qps > 0 else None
        self._session: aiohttp.ClientSession | None = None
        self._versions = ServedVersions(self.read)
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
        """Return the document at a path that is not an object, for example /version or /metrics."""
        return await self._send(HttpRequest("GET", path))

    async def _object(self, call: AnsweredByObject) -> Any:
        if isinstance(call, StatusCall) and call.read == call.wanted:
            return call.read
        async with self._speaking(call.resource) as codec:
            return codec.object(await self._send(_request(codec, call)))

    async def _delete(self, call: AnyDeleteCall) -> None:
        async with self._speaking(call.resource) as codec:
            await self._send(_request(codec, call))

    async def _page(self, call: ListCall) -> Page[Any]:
        async with self._speaking(call.resource) as codec:
            return await (self._part if call.limit or call.continue_ else self._whole)(codec, call)

    async def _changes(self, type_: type[T], call: WatchCall) -> AsyncGenerator[EventBatch[T], None]:
        silence = _silence(call.timeout, call.bookmarks)
        async with (
            self._speaking(call.resource) as codec,
            aclosing(self._stream(_request(codec, call), silence)) as chunks,
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
        """Yield the log of a pod's container in chunks as they arrive; only available over HTTP.

        `container` can be omitted if the pod has only one. `tail` is the number of last lines (None: all). With
        `follow`, new lines follow until the container ends.
        """
        query = _query(
            container=container, follow="true" if follow else "", tailLines="" if tail is None else str(tail)
        )
        path = _path(self._codec(resource_of(Pod), "v1"), namespace, name, "log")
        async with aclosing(self._stream(HttpRequest("GET", path, query), None)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def _speaking(self, resource: Resource) -> AsyncIterator[Codec]:
        """Context with the codec for the version that the server serves. A missing path clears the cached version."""
        codec = self._codec(resource, await self._versions.of(resource))
        try:
            yield codec
        except NotFound as error:
            if not error.details.get("name"):  # the path does not exist, not just the object
                self._versions.forget(resource)
            raise

    def _codec(self, resource: Resource, version: str) -> Codec:
        codec = self._codecs.get((resource, version))
        if codec is None:
            codec = self._codecs[resource, version] = Codec(resource, version)
        return codec

    async def _part(self, codec: Codec, call: ListCall) -> Page[Any]:
        return codec.page(await self._send(_request(codec, call)))

    async def _whole(self, codec: Codec, call: ListCall) -> Page[Any]:
        """Read a whole list in pages. If the state of the first page expires, reads the list again in one request."""
        first = page = await self._part(codec, replace(call, limit=self.config.page_size))
        items = [*page.items]
        try:
            while page.continue_:
                page = await self._part(codec, replace(call, limit=self.config.page_size, continue_=page.continue_))
                items += page.items
        except Expired:
            return await self._part(codec, call)
        return Page(tuple(items), first.resource_version)

    async def _send(self, request: HttpRequest) -> bytes:
        """Send a request with retries. Returns the body of the response; raises the error that the response means.

        Raises MethodNotAllowed, without sending, for a write of a client that only reads, and ServiceUnavailable if
        the connection fails.
        """
        if self._read_only and request.method != "GET":
            raise MethodNotAllowed(f"not sent: {request.method} {request.path}, this client only reads")
        renewed = False
        for attempt in range(_TRIES):
            await self._keep_pace()
            answer = await self._exchange(request)
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

    async def _exchange(self, request: HttpRequest) -> ServerAnswer:
        """Send one request. Returns the complete response; raises ServiceUnavailable if the connection fails."""
        async with self._request(request) as answer:
            return ServerAnswer(answer.status, cast(Headers, answer.headers), await answer.read())

    async def _headers(self, request: HttpRequest) -> Sequence[tuple[str, str]]:
        authorization = await self.config.credentials.header()
        told = {"Authorization": authorization, "Content-Type": request.media_type if request.body else ""}
        own = [("Accept", _JSON), ("User-Agent", self.config.user_agent), *self.config.headers]
        return own + [(name, value) for name, value in told.items() if value]

    async def _keep_pace(self) -> None:
        """Wait until the configured rate allows the next request. Watches do not count, as in client-go."""
        if self._pace is not None and (delay := self._pace.delay(self._clock.monotonic())):
            await self._clock.sleep(delay)

    async def _stream(self, request: HttpRequest, silence: float | None) -> AsyncGenerator[bytes, None]:
        """Yield a response in chunks as they arrive. After `silence` seconds without data (None: no limit), the
        stream just ends.

        Raises the error that the response means, and ServiceUnavailable if the connection fails.
        """
        for attempt in range(_TRIES):
            async with self._request(request, silence) as answer:
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
        self, request: HttpRequest, silence: float | None = _READ_SECONDS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Context with the response to a request. A failed connection becomes ServiceUnavailable."""
        import aiohttp

        method, path, query, body, _ = request
        headers = await self._headers(request)
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
        """Return the session, created on first use because it belongs to an event loop."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, socket_factory=_socket),
                auto_decompress=True,
                trace_configs=[_fencing()] if self.fence is not None else None,
            )
        return self._session


def _path(codec: Codec, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, object or subresource.

    An empty namespace means all namespaces. The namespace is ignored for cluster-scoped resources.
    """
    resource = codec.resource
    parts = [f"/apis/{resource.group}" if resource.group else "/api", codec.version]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join(parts)


def _request(codec: Codec, call: AnsweredCall | WatchCall) -> HttpRequest:
    """Return the HTTP request for a call."""
    name = call.name if isinstance(call, ObjectCall) else ""
    path = _path(codec, call.namespace, name, call.subresource if isinstance(call, PartCall) else "")
    match call:
        case GetCall():
            return HttpRequest("GET", path)
        case ListCall() | WatchCall():
            return HttpRequest("GET", path, _reading(call))
        case CreateCall():
            tree = call.body if isinstance(call.body, dict) else msgspec.to_builtins(call.body)
            body = msgspec.json.encode(tree) if call.subresource else codec.encode(tree)
            return HttpRequest("POST", path, body=body)
        case UpdateCall():
            return HttpRequest("PUT", path, body=codec.encode(call.tree))
        case PatchCall():
            query = _query(fieldManager=call.manager, force="true" if call.force else "")
            return HttpRequest("PATCH", path, query, codec.encode_patch(call.patch), call.kind.value)
        case StatusCall():
            steps = status_steps(cast(Any, call.read), cast(Any, call.wanted).status)
            return HttpRequest("PATCH", f"{path}/status", None, msgspec.json.encode(steps), PatchKind.JSON.value)
        case DeleteCall():
            return HttpRequest(
                "DELETE", path, body=_delete_options(call, uid=call.uid, resourceVersion=call.resource_version)
            )
        case DeleteCollectionCall():
            query = _query(labelSelector=call.labels, fieldSelector=call.fields)
            return HttpRequest("DELETE", path, query, _delete_options(call))


def _reading(call: ListCall | WatchCall) -> Query:
    """Return the query of a list or watch."""
    selected = _query(labelSelector=call.labels, fieldSelector=call.fields, resourceVersion=call.resource_version)
    if isinstance(call, WatchCall):
        seconds = "" if call.timeout is None else str(math.ceil(call.timeout))
        bookmarks = "true" if call.bookmarks else ""
        return selected | _query(watch="true", allowWatchBookmarks=bookmarks, timeoutSeconds=seconds)
    if call.continue_:
        selected.pop("resourceVersion", None)  # contained in the continue token
    return selected | _query(limit=str(call.limit or "")) | _query(**{"continue": call.continue_})


def _fencing() -> aiohttp.TraceConfig:
    """Return a trace configuration that calls the fence right before a request is sent on its connection."""

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
    """Return how many seconds a watch may be silent before its connection counts as dead; None for no limit.

    `timeout` is that of the watch in seconds. With bookmarks, the server sends something at least once a minute or
    so.
    """
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


def _delete_options(call: AnyDeleteCall, **preconditions: str) -> bytes:
    options: Tree = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if call.grace is not None:
        options["gracePeriodSeconds"] = call.grace
    if call.propagation:
        options["propagationPolicy"] = call.propagation
    if conditions := _query(**preconditions):
        options["preconditions"] = conditions
    return msgspec.json.encode(options)


def _why(error: Exception) -> str:
    """Return why a connection failed, with the message of the operating system if possible: `Connection refused`."""
    import aiohttp

    number = error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    if number is not None and not isinstance(error, aiohttp.ClientSSLError | aiohttp.ClientConnectorDNSError):
        return os.strerror(number)
    return str(error) or type(error).__name__


def _retry_after(status: int, headers: Headers) -> float | None:
    """Return the seconds after which the server asks to retry, at most _RETRY_LIMIT_SECONDS, or None if it does not
    ask.

    Only some statuses count, and only a number of seconds, not a date.
    """
    text = headers.get("Retry-After", "")
    if status not in _LATER or not text.isdecimal():
        return None
    return min(float(text), _RETRY_LIMIT_SECONDS)


def _tls(config: Config) -> ssl.SSLContext | bool:
    """Return the TLS context for server verification and the client certificate; True (the library's default)
    without https.

    Raises ConfigError.
    """
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
    """Load the client certificate from a temporary file, because the ssl module only reads files."""
    with tempfile.NamedTemporaryFile(prefix="dray-") as file:
        file.write(config.certificate + b"\n" + config.key)
        file.flush()
        context.load_cert_chain(file.name)
