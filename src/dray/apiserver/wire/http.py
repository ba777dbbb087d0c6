"""HTTP interface of the server: an ASGI application that reads requests, calls the server and writes answers.

Every request gets an answer with a Status on failure. This module only interprets path, query, headers and body. TLS
and sockets are in `serving`, encodings in `answers`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from dray.api.decode import strict_error
from dray.api.errors import ApiError, BadRequest, InternalError, NotAcceptable, TooLarge
from dray.api.localhost import check_local
from dray.api.strategy import deprecation
from dray.api.users import ADMIN, User
from dray.apiserver.core import ApiServer
from dray.apiserver.limits import LARGE, Limits
from dray.apiserver.request import NOTHING_TWICE, Answer, Request, RequestOptions
from dray.apiserver.security.authentication import Authenticator
from dray.apiserver.streaming.options import NodeProxyOptions, connect_options
from dray.apiserver.streaming.serving import STREAMED, PodStreams, upgrade_of
from dray.apiserver.wire.answers import AnswerWriter, ListAnswer, written
from dray.apiserver.wire.bodies import JSON, PROTOBUF, Reading, read_body, read_patch, require_kind
from dray.apiserver.wire.documents import HEALTH, Document, Documents, document_parts
from dray.apiserver.wire.listings import Listing, Listings
from dray.apiserver.wire.metrics import Metrics
from dray.apiserver.wire.negotiation import PLAIN, accepted
from dray.apiserver.wire.nodeproxy import NodeProxy
from dray.apiserver.wire.paths import CONNECTED, RequestTarget, Routes, UnknownGroup
from dray.apiserver.wire.pieces import Part, gathered
from dray.apiserver.wire.queries import Query, boolean, options_of, parse_query
from dray.apiserver.wire.slots import OneByOne, Slots
from dray.apiserver.wire.statuses import status_body, warning_headers
from dray.apiserver.wire.streams import Stream, copy
from dray.apiserver.wire.tables import include_policy
from dray.apiserver.write.subresources import delete_options
from dray.background.thread import in_thread
from dray.background.turns import pause, turns
from dray.logs import begin_request, request_id

logger = logging.getLogger(__name__)
requests = logging.getLogger("dray.requests")

T = TypeVar("T")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_LONG_QUERY = 2 << 10  # bytes of selectors, which take a millisecond to parse
_STREAMED = {PROTOBUF: f"{PROTOBUF};stream=watch".encode()}
_NONE: HeaderList = []
_REQUEST_ID = b"audit-id"  # header name as in Kubernetes
_NO_CACHE = (b"cache-control", b"no-cache, private")
_WITH_BODY = ("create", "update", "patch")
_READ = (*_WITH_BODY, "delete", "deletecollection")
_NO_METADATA = ("binding", "eviction", "token")  # subresources whose answer is not their object


class HttpApi:
    """The ASGI application of one server. Without an authenticator, every client is the administrator."""

    def __init__(
        self,
        server: ApiServer,
        routes: Routes,
        documents: Documents,
        metrics: Metrics,
        authenticator: Authenticator | None,
        limits: Limits | None = None,
    ) -> None:
        self._server = server
        self._routes = routes
        self._documents = documents
        self.authenticator = authenticator
        self.mounts: dict[str, Application] = {}  # other applications by path prefix
        self._limits = limits = limits or Limits()
        self._reading = Reading(limits)
        self._requests = Slots(metrics, "requests", limits.requests, limits.requests_of_user, 1)
        self._watches = Slots(metrics, "watches", limits.watchers, limits.watchers_of_user, 5)
        self._large = Slots(metrics, "large objects", limits.large_bodies, limits.large_bodies_of_user, 1)
        self._unfolding = OneByOne()
        self._listings = Listings(limits)
        self._printer = AnswerWriter(server.storage)
        self.streams: PodStreams | None = None  # streams into containers, if there are nodes that run any
        self.nodes: NodeProxy | None = None  # proxy of node paths, if available
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Errors are answered with a Status."""
        if scope["type"] != "http":
            return
        for prefix, application in self.mounts.items():
            if scope["path"].startswith(prefix):
                await application(scope, receive, send)
                return
        call = HttpCall(self, scope, receive, send)
        begin_request(call.id)
        begun = perf_counter()
        self.metrics.in_flight += 1
        self._server.priority.came += 1
        try:
            await call.answer()
        except ApiError as error:
            await call.refuse(error)
        except RecursionError:
            await call.refuse(BadRequest("the object is nested too deeply"))
        except Exception as error:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await call.refuse(InternalError(f"Internal error occurred: {error}"))
        finally:
            if not call.code:
                self._server.priority.answered += 1
            self.metrics.in_flight -= 1
            seconds = perf_counter() - begun
            self.metrics.count(*call.label, call.code, seconds)
            if requests.isEnabledFor(logging.DEBUG):
                call.log(seconds)


class HttpCall:
    """One HTTP request while it is processed."""

    def __init__(self, api: HttpApi, scope: Scope, receive: Receive, send: Send) -> None:
        self._api = api
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers: HeaderList = scope["headers"]
        self._first = dict(reversed(self._headers))  # first header of each name
        self._accepted = PLAIN
        self._user = ADMIN
        self._query: Query = {}
        self._warnings: list[str] = []
        self.id = request_id(self._header(_REQUEST_ID))
        self.code = 0  # code of the answer once it has started
        self.label = (scope["method"], "", "")

    def log(self, seconds: float) -> None:
        """Log the request with user, code and duration, for debugging. `seconds` is the duration."""
        where, user = self._scope["path"], self._user.name
        requests.debug("%s %s by %s: %d in %.1f ms", self._scope["method"], where, user, self.code, seconds * 1000)

    async def answer(self) -> None:
        """Answer the request. Raises an ApiError, which the caller sends."""
        api, path, method = self._api, self._scope["path"], self._scope["method"]
        if path.startswith(HEALTH) and (document := await api._documents.public(path, self._scope["query_string"])):
            await self.reply(document.code, document.body, document.content_type)
            return
        user = self._user = self._authenticate()
        header = self._header(b"accept")
        if parts := document_parts(path):
            with api._requests.taken(user):
                await self._reply_document(await api._documents.private(user, method, parts, header))
            return
        if len(self._scope["query_string"]) > _LONG_QUERY:
            await turns().wait(user.name)
        target = api._routes.match(method, path)
        self._query = parse_query(self._scope["query_string"])
        watching = target.verb == "watch" or (
            "watch" in self._query
            and target.verb in ("list", "get")
            and not target.subresource
            and boolean(self._query["watch"])
        )
        self.label = ("watch" if watching else target.verb, target.resource.group, target.resource.plural)
        if target.subresource != "log" and target.subresource not in CONNECTED:
            shapes = "get" in target.resource.verbs and target.subresource not in _NO_METADATA
            self._accepted = accepted(header, shapes=shapes)
            if self._accepted.media == PROTOBUF and not self._accepted.shape:
                self._accepted = accepted(header, _has_protobuf(target), shapes=shapes)
        if warning := deprecation(target.resource, target.version):
            self._warnings.append(warning)
        request = Request(
            user=user,
            verb=self.label[0],
            resource=target.resource,
            version=target.version,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            options=options_of(target.verb, self._query),
            user_agent=self._header(b"user-agent"),
            tracked=True,
            awaited=True,
        )
        await self._act(request, target, watching)

    async def _reply_document(self, document: Document) -> None:
        """Send a document, or 304 if the client has it already."""
        known = self._header(b"if-none-match")
        if known and (b"etag", known.encode("latin-1")) in document.headers:
            await self.reply(304, b"", document.content_type, document.headers)
        else:
            await self.reply(document.code, document.body, document.content_type, document.headers)

    async def _act(self, request: Request, target: RequestTarget, watching: bool) -> None:
        """Execute a request with the handler for its kind: watch, stream, log, proxy or plain request."""
        if watching:
            await self._watch(request, target)
            return
        if request.subresource in STREAMED and self._api.streams is not None:
            await self._connect(request)
            return
        with self._api._requests.taken(request.user):
            if request.subresource == "log":
                await self._log(request)
            elif (request.resource.plural, request.subresource) == ("nodes", "proxy") and self._api.nodes is not None:
                await self._relay(request, target, self._api.nodes)
            else:
                await self._answer(request)

    async def _answer(self, request: Request) -> None:
        """Execute a plain request and send the answer."""
        api = self._api
        try:
            if request.verb in _READ and request.subresource not in CONNECTED:
                answer = await self._write(request)
            else:
                answer = await api._server.handle(request)
        except ApiError:
            self._warnings += request.complaints  # a rejected body may have unknown fields too
            raise
        self._warnings += answer.warnings
        include = include_policy(self._query.get("includeObject", "")) if self._accepted.shape else ""
        body = api._printer.answer(request, answer, self._accepted, include)
        if isinstance(body, ListAnswer):
            await self._reply_list(answer.code, body)
        elif isinstance(body, bytes) or self._accepted.media != JSON or self._pretty():
            await self.reply_json(answer.code, body if isinstance(body, bytes) else b"".join(body))
        else:
            await self._reply_parts(answer.code, body)

    # Reading

    def _authenticate(self) -> User:
        """Return the user.

        Raises Unauthorized; without an authenticator, raises for unknown hosts and cross-site origins.
        """
        authenticator = self._api.authenticator
        if authenticator is None:
            check_local((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers)
            return ADMIN
        return authenticator.authenticate(self._headers, self._scope.get("client_certificate"))

    def _header(self, name: bytes) -> str:
        """Return the first header of a name, or "" if the request has none."""
        value = self._first.get(name)
        return value.decode("latin-1") if value else ""

    async def _write(self, request: Request) -> Answer:
        """Read the body and execute the request. Returns its Answer.

        The body is read only if the user is authorized; large bodies are limited.
        """
        server = self._api._server
        server.authorize(request)
        data = await self._body()
        if len(data) <= LARGE:
            await self._read(request, data)
            return await server.handle(request)
        request.is_large = True
        with self._api._large.taken(request.user, len(data)):
            async with self._api._unfolding.turn(request.user):
                answer = await self._write_large(request, data)
        request.body = None  # so a slow reader of the answer does not keep it in memory
        return answer

    async def _write_large(self, request: Request, data: bytes) -> Answer:
        """Execute a request with a large body, after yielding to other work. Returns its Answer."""
        await pause(request.user.name)
        await self._read(request, data)
        return await self._api._server.handle(request)

    async def _read(self, request: Request, data: bytes) -> None:
        """Decode the body and put it into the request, with the options that it contains."""
        reading, content_type = self._api._reading, self._header(b"content-type")
        if request.verb == "patch":
            patch_type, request.body, request.repeated = await self._run(
                request, read_patch, content_type, data, reading
            )
            request.options = options_of("patch", self._query, patch_type)
        elif request.verb in _WITH_BODY:
            request.body, request.repeated = await self._run(
                request, read_body, content_type, data, request.resource, request.version, reading
            )
            if request.subresource != "scale":
                require_kind(request.resource, data, request.body)
            if "get" not in request.resource.verbs or request.subresource in (*_NO_METADATA, "scale"):
                self._complain(request)
        elif data:
            tree, _ = await self._run(request, read_body, content_type, data, request.resource, "v1", reading)
            request.options = delete_options(request.options, tree)
        if request.is_large:
            await pause(request.user.name)

    def _run(self, request: Request, read: Callable[..., T], *arguments: Any) -> Awaitable[T]:
        """Run a decoding step where it belongs (event loop or worker thread). Returns its result."""
        return self._api._server.resolver.run(request.user.name, request.is_large, read, *arguments)

    def _complain(self, request: Request) -> None:
        """Report duplicate fields of a body that is not a stored object, then forget them.

        Raises an ApiError if field validation is Strict, adds warnings if it is Warn, otherwise ignores them. For
        objects they are reported with unknown fields.
        """
        if request.repeated and request.options.field_validation == "Strict":
            raise strict_error(request.resource, request.version, request.repeated.errors)
        if request.options.field_validation == "Warn":
            self._warnings += (*request.repeated.fields, *request.repeated.lines)
        request.repeated = NOTHING_TWICE

    async def _body(self) -> bytes:
        """Return the whole body. `serving` limits how long the body may take.

        Raises TooLarge if the body exceeds the limit, BadRequest if the client disconnects before its end.
        """
        limit = self._api._limits.body
        length = self._header(b"content-length")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        message = await self._receive()
        if not message.get("more_body"):
            return self._checked(message, message.get("body", b""))
        chunks = [message["body"]]
        size = len(chunks[0])
        while message.get("more_body"):
            message = await self._receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > limit:
                raise _too_large(limit)
        return self._checked(message, b"".join(chunks))

    def _checked(self, message: MutableMapping[str, Any], data: bytes) -> bytes:
        """Return the body. Raises BadRequest if the client disconnected before its end."""
        if message["type"] == "http.disconnect":
            raise BadRequest("the client went away before its request was complete")
        return data

    # Long answers

    async def _watch(self, request: Request, target: RequestTarget) -> None:
        """Stream watch events until the watch ends or the client disconnects.

        A name in the path becomes a field selector.
        """
        api = self._api
        if target.name:
            request.options = _only(request.options, target.name)
            request.name = ""
        form = api._server.storage.form(request.resource, request.version)
        include = include_policy(self._query.get("includeObject", "")) if self._accepted.shape else ""
        stream = Stream(api._printer, form, self._accepted, include, request.user.name, api._limits.piece)
        with api._watches.taken(request.user):
            api.metrics.watchers += 1
            api.metrics.in_flight -= 1  # a watch is counted separately
            try:
                changes = api._server.watch(request)
                await self.begin(200, _STREAMED.get(self._accepted.media, b"application/json"))
                await stream.run(changes, self._receive, self._send)
            finally:
                api.metrics.in_flight += 1
                api.metrics.watchers -= 1

    async def _connect(self, request: Request) -> None:
        """Hand the connection over to a stream into a pod. GET also requires the `create` permission."""
        api, streams = self._api, self._api.streams
        assert streams is not None
        for verb in {request.verb, "create"}:
            request.verb = verb
            api._server.authorize(request)
        query = parse_qsl(self._scope["query_string"].decode("latin-1"), keep_blank_values=True)
        with api._watches.taken(request.user):
            options = await api._server.connect(request, connect_options(request.subresource, query))
            upgrade = upgrade_of(self._headers, self._scope.get("take_over"))
            api.metrics.in_flight -= 1  # may go on for hours
            try:
                place = partial(api._watches.taken, request.user)
                await streams.serve(request, options, upgrade, place)
            except ConnectionError:
                self.code = self.code or 101  # the client has disconnected
            finally:
                api.metrics.in_flight += 1

    async def _log(self, request: Request) -> None:
        """Stream the log of a container."""
        server = self._api._server
        server.authorize(request)
        if server.log_source is None:
            await server.handle(request)  # raises the error
            return
        chunks = server.log_source(request, self._query)
        first = await anext(chunks, b"")  # errors are raised before the answer starts
        await self.begin(200, b"text/plain")
        await self._send({"type": "http.response.body", "body": first, "more_body": True})
        await copy(chunks, self._receive, self._send)

    async def _relay(self, request: Request, target: RequestTarget, nodes: NodeProxy) -> None:
        """Stream a node's answer to a proxied request."""
        self._api._server.authorize(request)
        options = await self._api._server.connect(request, NodeProxyOptions(target.tail))
        answer = await nodes.relay(request, self._scope["method"], options.path, self._scope["query_string"])
        await self.begin(answer.code, answer.content_type)
        await copy(answer.pieces, self._receive, self._send)

    # Writing

    async def reply_json(self, code: int, body: bytes) -> None:
        """Send a JSON body in the accepted media type."""
        media = self._accepted.media
        if media == JSON or len(body) < LARGE:
            body, content_type = written(body, media, self._pretty())
        else:
            body, content_type = await in_thread(self._user.name, written, body, media, False)  # takes long
        await self.reply(code, body, content_type)

    async def _reply_parts(
        self, code: int, parts: Sequence[Part], content_type: bytes = b"application/json", headers: HeaderList = _NONE
    ) -> None:
        """Send a large body. Each piece is sent when the client has taken the previous one."""
        await self.begin(code, content_type, [(b"content-length", b"%d" % sum(map(len, parts))), *headers])
        if self._scope["method"] != "HEAD":
            for piece in gathered(parts, self._api._limits.piece):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def _reply_list(self, code: int, answer: ListAnswer) -> None:
        """Send a list: at once if it is short, otherwise in pieces made when the client is ready for them."""
        limits, listings = self._api._limits, self._api._listings
        if self._accepted.media == JSON and not self._pretty() and (body := answer.short(limits.piece)):
            await self.reply(code, body, b"application/json")
            return
        async with listings.open(self._user.name, answer, self._accepted.media, self._pretty()) as listing:
            first, second = await anext(listing.pieces, b""), await anext(listing.pieces, b"")
            if not second:
                await self.reply(code, first, listing.content_type)
            elif self._scope["http_version"] == "1.0":  # HTTP/1.0 has no chunks, so the length comes first
                with listings.whole.taken(answer.size()):
                    rest = [piece async for piece in listing.pieces]
                    await self._reply_parts(code, (first, second, *rest), listing.content_type)
            else:
                await self._reply_chunks(code, (first, second), listing)

    async def _reply_chunks(self, code: int, begun: Sequence[bytes], listing: Listing) -> None:
        """Send a list in chunks: the pieces that were already encoded, then the rest."""
        await self.begin(code, listing.content_type)
        if self._scope["method"] != "HEAD":
            for piece in begun:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            async for piece in listing.pieces:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    def _pretty(self) -> bool:
        """Return whether the client wants indented JSON: `pretty` is in the query and neither 0 nor false."""
        value = self._query.get("pretty")
        return value is not None and value not in ("0", "false")

    async def reply(self, code: int, body: bytes, content_type: bytes, headers: HeaderList = _NONE) -> None:
        """Send a response with a complete body, in pieces if it is large. A HEAD request gets no body."""
        if len(body) > self._api._limits.piece:
            await self._reply_parts(code, (body,), content_type, headers)
            return
        await self.begin(code, content_type, [(b"content-length", b"%d" % len(body)), *headers])
        if self._scope["method"] == "HEAD":
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, code: int, content_type: bytes, headers: HeaderList = _NONE) -> None:
        """Start the response: send code and headers, including warnings."""
        self.code = code
        self._api._server.priority.answered += 1
        all_headers = [(b"content-type", content_type), _NO_CACHE, (_REQUEST_ID, self.id.encode()), *headers]
        if self._warnings:
            all_headers += warning_headers(self._warnings, self._api._limits.warnings)
        await self._send({"type": "http.response.start", "status": code, "headers": all_headers})

    async def refuse(self, error: ApiError) -> None:
        """Send an error. Does nothing if the response has already started."""
        if self.code:
            return
        if isinstance(error, UnknownGroup):
            await self.reply(404, b"404 page not found\n", b"text/plain; charset=utf-8")
            return
        headers = []
        if seconds := error.details.get("retryAfterSeconds"):
            headers.append((b"retry-after", b"%d" % seconds))
        if error.code == 401:
            headers.append((b"www-authenticate", b'Bearer realm="dray"'))
        status = status_body(error, self._api._limits.status_bytes)
        body, content_type = written(status, self._error_media(), self._pretty())
        await self.reply(error.code, body, content_type, headers)

    def _error_media(self) -> str:
        """Return the media type of an error. JSON if the client accepts none of the available types."""
        try:
            return accepted(self._header(b"accept")).media
        except NotAcceptable:
            return JSON


def _has_protobuf(target: RequestTarget) -> bool:
    """Return whether the resource has a protobuf form in this version."""
    from dray.api import protobuf  # late: large, and only Go clients need it

    return protobuf.has_form(target.resource.api_version(target.version))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")


def _only(options: RequestOptions, name: str) -> RequestOptions:
    """Return the options with a field selector for one object name."""
    selector = f"metadata.name={name}"
    if options.field_selector:
        selector = f"{options.field_selector},{selector}"
    return msgspec.structs.replace(options, field_selector=selector)
