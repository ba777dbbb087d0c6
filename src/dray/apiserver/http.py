"""HTTP around the one way in: an ASGI application that reads requests, asks the server and writes answers.

Whatever happens, the client gets an answer with a Status in it. Nothing here decides what a request means beyond its
path, query, headers and body. Left out: TLS and sockets (`serving`), and every form of an object (`answers`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

import msgspec

from dray.api.errors import ApiError, BadRequest, InternalError, NotAcceptable, Timeout, TooLarge, TooManyRequests
from dray.api.strategy import deprecation
from dray.apiserver.answers import Printer, written
from dray.apiserver.authentication import Authenticator
from dray.apiserver.bodies import JSON, PROTOBUF, read_body, read_patch
from dray.apiserver.core import ApiServer
from dray.apiserver.documents import HEALTH, Document, Documents
from dray.apiserver.metrics import Metrics
from dray.apiserver.negotiation import PLAIN, accepted
from dray.apiserver.paths import CONNECTED, Routes, Target, UnknownGroup
from dray.apiserver.queries import Query, boolean, options_of, parse_query
from dray.apiserver.request import Options, Request
from dray.apiserver.storage import encode
from dray.apiserver.streams import Stream, copy
from dray.apiserver.subresources import delete_options
from dray.apiserver.tables import include_policy
from dray.apiserver.user import ADMIN, User
from dray.store import AWAITED

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LARGEST_BODY = 3 << 20  # as Kubernetes
_BODY_SECONDS = 60.0  # a client that takes longer to send its body is not sending
_LARGE_YAML = 32 << 10
_LARGE = 128 << 10  # of JSON, which takes 5 ms to write as protobuf
_STREAMED = {PROTOBUF: f"{PROTOBUF};stream=watch".encode()}
_NO_CACHE = (b"cache-control", b"no-cache, private")
_WITH_BODY = ("create", "update", "patch")


class Limits(msgspec.Struct, frozen=True):
    """How much may be under way at once; beyond it clients are told to come back."""

    requests: int = 1000
    watchers: int = 10_000
    body: int = LARGEST_BODY


class HttpApi:
    """The ASGI application of one server. Without an authenticator everybody is the administrator."""

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
        self._authenticator = authenticator
        self._limits = limits or Limits()
        self._printer = Printer(server.storage)
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = Call(self, scope, receive, send)
        begun = perf_counter()
        self.metrics.in_flight += 1
        self._server.outside.came += 1
        AWAITED.set(True)  # each request has a task, and so a context, of its own
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
                self._server.outside.answered += 1
            self.metrics.in_flight -= 1
            self.metrics.count(*call.label, call.code, perf_counter() - begun)


class Call:
    """One HTTP request on its way through."""

    def __init__(self, api: HttpApi, scope: Scope, receive: Receive, send: Send) -> None:
        self._api = api
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers: Headers = scope["headers"]
        self._accepted = PLAIN
        self._query: Query = {}
        self._warnings: list[str] = []
        self.code = 0  # of the answer, once it has begun
        self.label = (scope["method"], "", "")

    async def answer(self) -> None:
        api, path, method = self._api, self._scope["path"], self._scope["method"]
        if path.startswith(HEALTH) and (document := await api._documents.public(path, self._scope["query_string"])):
            await self.reply(document.code, document.body, document.content_type)
            return
        user = self._authenticate()
        header = self._header(b"accept")
        if document := api._documents.private(user, method, path, header):
            await self._reply_document(document)
            return
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
            self._accepted = accepted(header)
            if self._accepted.media == PROTOBUF and not self._accepted.shape:
                self._accepted = accepted(header, _has_protobuf(target))
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
        )
        await self._act(request, target, watching)

    async def _reply_document(self, document: Document) -> None:
        known = self._header(b"if-none-match")
        if known and (b"etag", known.encode("latin-1")) in document.headers:
            await self.reply(304, b"", document.content_type, document.headers)
        else:
            await self.reply(document.code, document.body, document.content_type, document.headers)

    async def _act(self, request: Request, target: Target, watching: bool) -> None:
        api = self._api
        if watching:
            await self._watch(request, target)
            return
        if api.metrics.in_flight > api._limits.requests:
            api.metrics.refused += 1
            raise TooManyRequests("too many requests, please try again later", retryAfterSeconds=1)
        if request.subresource == "log":
            await self._log(request)
            return
        await self._read(request)
        answer = await api._server.handle(request)
        self._warnings += answer.warnings
        include = include_policy(self._query.get("includeObject", "")) if self._accepted.shape else ""
        body = api._printer.answer(request, answer, self._accepted, include)
        await self.reply_json(answer.code, body)

    # Reading

    def _authenticate(self) -> User:
        authenticator = self._api._authenticator
        if authenticator is None:
            return ADMIN
        return authenticator.authenticate(self._headers, self._scope.get("client_certificate"))

    def _header(self, name: bytes) -> str:
        for key, value in self._headers:
            if key == name:
                return value.decode("latin-1")
        return ""

    async def _read(self, request: Request) -> None:
        """Put body and what it says about the options into the request."""
        content_type = self._header(b"content-type")
        if request.subresource in CONNECTED:
            return
        if request.verb in _WITH_BODY:
            data = await self._body()
            if request.verb == "patch":
                patch_type, request.body = await _apart(content_type, data, read_patch, content_type, data)
                request.options = options_of("patch", self._query, patch_type)
            else:
                request.body, repeated = await _apart(
                    content_type, data, read_body, content_type, data, request.resource, request.version
                )
                self._complain(request, repeated)
        elif request.verb in ("delete", "deletecollection") and (data := await self._body()):
            tree, _ = await _apart(content_type, data, read_body, content_type, data, request.resource, "v1")
            request.options = delete_options(request.options, tree)

    def _complain(self, request: Request, repeated: list[str]) -> None:
        validation = request.options.field_validation
        if repeated and validation == "Strict":
            raise BadRequest(
                f'{request.resource.kind} in version "{request.version}" cannot be handled as a '
                f"{request.resource.kind}: strict decoding error: {', '.join(repeated)}"
            )
        if validation == "Warn":
            self._warnings += repeated

    async def _body(self) -> bytes:
        limit = self._api._limits.body
        length = self._header(b"content-length")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        message = await self._receive()
        if not message.get("more_body"):
            return self._checked(message, message.get("body", b""))
        chunks = [message["body"]]
        size = len(chunks[0])
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while message.get("more_body"):
                    message = await self._receive()
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > limit:
                        raise _too_large(limit)
        except TimeoutError as error:
            raise Timeout("the body of the request did not arrive in time") from error
        return self._checked(message, b"".join(chunks))

    def _checked(self, message: MutableMapping[str, Any], data: bytes) -> bytes:
        if message["type"] == "http.disconnect":
            raise BadRequest("the client went away before its request was complete")
        return data

    # Long answers

    async def _watch(self, request: Request, target: Target) -> None:
        api = self._api
        if target.name:
            request.options = _only(request.options, target.name)
            request.name = ""
        if api.metrics.watchers >= api._limits.watchers:
            api.metrics.refused += 1
            raise TooManyRequests("too many watches, please try again later", retryAfterSeconds=5)
        form = api._server.storage.form(request.resource, request.version)
        include = include_policy(self._query.get("includeObject", "")) if self._accepted.shape else ""
        stream = Stream(api._printer, form, self._accepted, include)
        changes = api._server.watch(request)
        api.metrics.watchers += 1
        api.metrics.in_flight -= 1  # a watch is counted by itself
        try:
            await self.begin(200, _STREAMED.get(self._accepted.media, b"application/json"))
            await stream.run(changes, self._receive, self._send)
        finally:
            api.metrics.in_flight += 1
            api.metrics.watchers -= 1

    async def _log(self, request: Request) -> None:
        server = self._api._server
        server.authorize(request)
        if server.log_source is None:
            await server.handle(request)  # answers that it cannot
            return
        chunks = server.log_source(request, self._query)
        first = await anext(chunks, b"")  # what is wrong is known before the answer begins
        await self.begin(200, b"text/plain")
        await self._send({"type": "http.response.body", "body": first, "more_body": True})
        await copy(chunks, self._receive, self._send)

    # Writing

    async def reply_json(self, code: int, body: bytes) -> None:
        media = self._accepted.media
        if media == JSON or len(body) < _LARGE:
            body, content_type = written(body, media, self._pretty())
        else:
            body, content_type = await asyncio.to_thread(written, body, media, False)  # others should not wait
        await self.reply(code, body, content_type)

    def _pretty(self) -> bool:
        value = self._query.get("pretty")
        return value is not None and value not in ("0", "false")

    async def reply(self, code: int, body: bytes, content_type: bytes, headers: Headers | None = None) -> None:
        length = (b"content-length", b"%d" % len(body))
        await self.begin(code, content_type, [length, *headers] if headers else [length])
        if self._scope["method"] == "HEAD":
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, code: int, content_type: bytes, headers: Headers | None = None) -> None:
        self.code = code
        self._api._server.outside.answered += 1
        all_headers = [(b"content-type", content_type), _NO_CACHE, *(headers or ())]
        all_headers += [(b"warning", _warning(warning)) for warning in self._warnings]
        await self._send({"type": "http.response.start", "status": code, "headers": all_headers})

    async def refuse(self, error: ApiError) -> None:
        """Answer with an error, unless the answer has begun."""
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
        body, content_type = written(encode(error.status()), self._error_media(), self._pretty())
        await self.reply(error.code, body, content_type, headers)

    def _error_media(self) -> str:
        """The form of an error, which may be known before that of the answer; JSON for those who accept nothing."""
        try:
            return accepted(self._header(b"accept")).media
        except NotAcceptable:
            return JSON


async def _apart(content_type: str, data: bytes, read: Callable[..., Any], *arguments: Any) -> Any:
    """Read a body, a large one of YAML beside the event loop: it takes seconds, and others should not wait."""
    if len(data) > _LARGE_YAML and "yaml" in content_type:
        return await asyncio.to_thread(read, *arguments)
    return read(*arguments)


def _has_protobuf(target: Target) -> bool:
    from dray.api import protobuf  # large, and only Go clients need it

    return protobuf.has_form(target.resource.api_version(target.version))


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")


def _warning(text: str) -> bytes:
    """A Warning header; what cannot stand in a header is left out of it."""
    clean = "".join(c for c in text if c.isprintable()).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{clean[:4096]}"'.encode("latin-1", errors="replace")


def _only(options: Options, name: str) -> Options:
    selector = f"metadata.name={name}"
    if options.field_selector:
        selector = f"{options.field_selector},{selector}"
    return msgspec.structs.replace(options, field_selector=selector)
