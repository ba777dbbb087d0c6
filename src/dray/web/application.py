"""The ASGI application: paths, sessions, pictures and their pages.

Serves paths below one prefix, on its own socket (`dray dashboard`) or mounted into an API server (`dray up`). A
picture is created when a user first opens a page, and kept for a while after the last page closes, so that its
history continues. `wire` checks requests, `picture` provides the content.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path

import msgspec

from dray.api.errors import ApiError, Unauthorized
from dray.api.gates import FeatureGates
from dray.api.wire import Tree
from dray.background import Background
from dray.web.access import Access, QuestionError, SessionIdentity, SignInCredentials
from dray.web.analyst import ClusterAnalyst
from dray.web.picture import DashboardPicture
from dray.web.questions import Desk
from dray.web.sessions import Sessions
from dray.web.streaming import HEARTBEAT, HEARTBEAT_SECONDS, OpenPage
from dray.web.wire import DashboardCall, Names, Receive, Scope, Send

log = logging.getLogger(__name__)

PREFIX = "/dashboard/"
KEEP_SECONDS = 600.0  # time that a picture is kept after its last page
_LOOK_SECONDS = 10.0
_PAGES = 32  # pages of one identity
_PICTURES = 32  # pictures of all identities; each needs memory in proportion to the cluster
_PICTURES_OF_ONE = 4  # pictures of one user with several tokens or namespaces
_RETRY_MILLISECONDS = 1000  # after which a browser reconnects
_ASSET = re.compile(r"[a-z0-9][a-z0-9._-]*")
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST api/session`."""

    code: str = ""
    token: str = ""
    namespace: str = ""


class Dashboard:
    """The dashboard of one server. `run` must be running while it is served."""

    def __init__(
        self,
        access: Access,
        names: Names,
        *,
        gates: FeatureGates | None = None,
        background: Background | None = None,
        sessions: Sessions | None = None,
        version: str = "",
        keep_seconds: float | None = KEEP_SECONDS,
    ) -> None:
        self.access = access
        self._analyst = ClusterAnalyst(gates, background)
        self._names = names
        self.sessions = sessions or Sessions()
        self._version = version
        self._keep_seconds = keep_seconds
        self._desk = Desk(self._analyst)
        self._pictures: dict[bytes, tuple[DashboardPicture, asyncio.Task[None]]] = {}
        self._closed = False

    # Life cycle

    async def run(self) -> None:
        """Close unused pictures periodically. Closes the dashboard when cancelled.

        A picture is unused if no page shows it for the time to keep it; without such a time, none is closed.
        """
        try:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                for key, (picture, _) in [*self._pictures.items()]:
                    idle = time.monotonic() - picture.last_page
                    if self._keep_seconds is not None and not picture.pages and idle > self._keep_seconds:
                        self._forget(key)
        finally:
            await self.close()

    async def close(self) -> None:
        """Tell all pages that the server stops, and stop all pictures."""
        self._closed = True
        pictures, self._pictures = [*self._pictures.values()], {}
        for picture, task in pictures:
            for page in [*picture.pages]:
                page.end("closing")
            task.cancel()
        await asyncio.gather(*(task for _, task in pictures), return_exceptions=True)
        await self._analyst.close()

    def open(self, identity: SessionIdentity) -> DashboardPicture:
        """Return the picture of an identity, created if needed. Raises QuestionError if there are too many."""
        known = self._pictures.get(identity.key)
        if known is not None:
            return known[0]
        if self._closed:
            raise QuestionError("the server ends", code="NotReady", status=503)
        self._make_room(
            [key for key, (one, _) in self._pictures.items() if one.identity.name == identity.name], _PICTURES_OF_ONE
        )
        self._make_room([*self._pictures], _PICTURES)
        picture = DashboardPicture(identity, self.access, self._analyst, self._version)
        task = asyncio.create_task(self._keep(picture), name=f"dashboard of {identity.name}")
        self._pictures[identity.key] = picture, task
        return picture

    def _make_room(self, keys: list[bytes], most: int) -> None:
        """Close the picture without pages that was unused longest, if there are `most`.

        Raises QuestionError if all have pages.
        """
        if len(keys) < most:
            return
        idle = [key for key in keys if not self._pictures[key][0].pages]
        if not idle:
            raise QuestionError(f"{most} pictures of the cluster are open already", code="TooManyRequests", status=429)
        self._forget(min(idle, key=lambda key: self._pictures[key][0].last_page))

    def _forget(self, key: bytes) -> None:
        """Drop a picture and stop updating it."""
        _, task = self._pictures.pop(key)
        task.cancel()

    async def _keep(self, picture: DashboardPicture) -> None:
        """Run a picture until it ends, then end its pages."""
        code = "closing"
        try:
            await picture.run()
        except Unauthorized:
            code = "session-ended"
        except Exception:
            log.exception("the dashboard of %s failed", picture.identity.name)
        finally:
            known = self._pictures.get(picture.identity.key)
            if known is not None and known[0] is picture:
                del self._pictures[picture.identity.key]
            for page in [*picture.pages]:
                page.end(code)
            picture.ready.set()  # wakes up those who wait for the first rows

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Errors are answered as JSON.

        Other scopes, such as a websocket, are ignored.
        """
        if scope["type"] != "http":
            return
        call = DashboardCall(scope, receive, send)
        try:
            call.check(self._names)
            await self._answer(call, scope["path"])
        except QuestionError as error:
            retry = 2 if error.status in (429, 503) else 0
            await call.refuse(error.status, error.code, error.text, error.field, retry)
        except ApiError as error:
            await call.refuse(error.code, error.reason, str(error))
        except TimeoutError:
            await call.refuse(504, "TimedOut", "the question takes too long")
        except ConnectionError:
            return  # the browser has disconnected
        except Exception as error:
            log.exception("%s %s failed", call.method, scope["path"])
            await call.refuse(500, "InternalError", f"{type(error).__name__}")

    async def _answer(self, call: DashboardCall, path: str) -> None:
        """Answer a request by its path: redirect, file of the page, or API. Raises QuestionError for unknown paths."""
        rest = path.removeprefix(PREFIX) if path.startswith(PREFIX) else None
        if path == PREFIX.rstrip("/"):
            await call.reply(308, b"", b"text/plain", [(b"location", PREFIX.encode())])
        elif rest is None:
            raise _not_found(path)
        elif rest == "":
            await self._asset(call, "index.html")
        elif rest.startswith("assets/"):
            await self._asset(call, rest.removeprefix("assets/"))
        else:
            await self._api(call, rest)

    async def _api(self, call: DashboardCall, rest: str) -> None:
        """Answer a request below api/. Raises QuestionError for an unknown path or method."""
        answers: dict[tuple[str, str], Callable[[DashboardCall], Awaitable[None]]] = {
            ("POST", "api/session"): self._sign_in,
            ("GET", "api/session"): self._who,
            ("DELETE", "api/session"): self._sign_out,
            ("GET", "api/code"): self._new_code,
            ("GET", "api/stream"): self._stream,
            ("GET", "api/series"): self._series,
        }
        if found := answers.get((call.method, rest)):
            await found(call)
        elif rest.startswith("api/ask/") and call.method == "POST":
            await self._ask(call, rest.removeprefix("api/ask/"))
        elif rest.startswith("api/ask/") or any(path == rest for _, path in answers):
            raise QuestionError(f"{call.method} is not allowed", code="MethodNotAllowed", status=405)
        else:
            raise _not_found(rest)

    async def _asset(self, call: DashboardCall, name: str) -> None:
        """Send a file of the page, or status 304 if the browser has it.

        Raises QuestionError if the file does not exist or the method is neither GET nor HEAD.
        """
        if call.method not in ("GET", "HEAD"):
            raise QuestionError(f"{call.method} is not allowed", code="MethodNotAllowed", status=405)
        kind = _TYPES.get(Path(name).suffix)
        file = resources.files(__package__) / "assets" / name
        if kind is None or not _ASSET.fullmatch(name) or not file.is_file():
            raise _not_found(name)
        content = file.read_bytes()
        tag = b'"%s"' % hashlib.sha256(content).hexdigest()[:16].encode()
        headers = [(b"etag", tag), (b"cache-control", b"no-cache")]
        if call.header(b"if-none-match") == tag.decode():
            await call.reply(304, b"", kind, headers)
        else:
            await call.reply(200, content, kind, headers)

    # Sessions

    async def _sign_in(self, call: DashboardCall) -> None:
        """Start a session with a code, a token or a client certificate, and set its cookie.

        Raises QuestionError if the body is invalid, Unauthorized if the code or credential is not accepted.
        """
        try:
            asked = msgspec.json.decode(await call.body(), type=SignIn)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise QuestionError(str(error)) from error
        if asked.code:
            identity = await self.access.restore(self.sessions.redeem(asked.code))
        else:
            certificate = call.scope.get("client_certificate")
            identity = await self.access.admit(SignInCredentials(asked.token, asked.namespace, certificate))
        cookie, expires = self.sessions.seal(identity.credential)
        await call.reply_json(200, self._session(identity, expires), [self._cookie(call, cookie)])

    async def _new_code(self, call: DashboardCall) -> None:
        """Send a one-time code for the user of the request's bearer token or client certificate."""
        token = call.header(b"authorization").removeprefix("Bearer ")
        offered = SignInCredentials(token, certificate=call.scope.get("client_certificate"))
        identity = await self.access.admit(offered)
        await call.reply_json(200, {"code": self.sessions.mint(identity.credential)})

    async def _who(self, call: DashboardCall) -> None:
        """Send user, namespace and expiry of the request's session as JSON.

        Raises Unauthorized without a valid session.
        """
        identity, expires = await self._identity(call)
        await call.reply_json(200, self._session(identity, expires))

    async def _sign_out(self, call: DashboardCall) -> None:
        """End the session and its pages, and delete the cookie."""
        cookie = call.cookie(_cookie_name(call))
        self.sessions.revoke(cookie)
        for page in [page for picture, _ in self._pictures.values() for page in picture.pages]:
            if page.session == cookie:
                page.end("session-ended")
        await call.reply(204, b"", b"application/json", [self._cookie(call, "")])

    def _session(self, identity: SessionIdentity, expires: int) -> Tree:
        """Return user, groups, namespace, server, mode and expiry of a session, in wire form."""
        return {
            "user": identity.name,
            "groups": identity.groups,
            "namespace": identity.namespace,
            "server": self.access.server,
            "mode": self.access.mode,
            "expires": expires,
        }

    def _cookie(self, call: DashboardCall, value: str) -> tuple[bytes, bytes]:
        """Return the header that sets the session cookie, or deletes it if the value is empty."""
        secure = "; Secure" if call.scope.get("scheme") == "https" else ""
        age = "" if value else "; Max-Age=0"
        text = f"{_cookie_name(call)}={value}; Path={PREFIX}; HttpOnly; SameSite=Strict{secure}{age}"
        return b"set-cookie", text.encode()

    async def _identity(self, call: DashboardCall) -> tuple[SessionIdentity, int]:
        """Return the identity of the request's cookie, and when the session expires (Unix time in seconds).

        Raises Unauthorized if there is no cookie, or its session has ended or is no longer valid.
        """
        cookie = call.cookie(_cookie_name(call))
        if not cookie:
            raise Unauthorized("there is no session")
        credential, expires = self.sessions.open(cookie)
        return await self.access.restore(credential), expires

    # The picture

    async def _series(self, call: DashboardCall) -> None:
        """Send the time series of the user's picture as JSON.

        Raises Unauthorized without a valid session.
        """
        identity, _ = await self._identity(call)
        await call.reply_json(200, self.open(identity).history.series_tree())

    async def _ask(self, call: DashboardCall, kind: str) -> None:
        """Answer a question of the page about the user's picture, as JSON.

        `kind` is the last part of the path. Raises Unauthorized without a valid session.
        """
        identity, _ = await self._identity(call)
        body = await call.body()
        await call.reply_json(200, await self._desk.ask(self.open(identity), kind, body))

    async def _stream(self, call: DashboardCall) -> None:
        """Stream events to a page until the page, the session or the picture ends.

        Raises QuestionError with status 429 if too many pages are open, Unauthorized without a session.
        """
        identity, expires = await self._identity(call)
        picture = self.open(identity)
        if len(picture.pages) >= _PAGES:
            raise QuestionError(f"there are {_PAGES} pages already", code="TooManyRequests", status=429)
        page = OpenPage(call.cookie(_cookie_name(call)))
        picture.pages.add(page)
        ending = asyncio.get_running_loop().call_later(max(0.0, expires - time.time()), page.end, "session-ended")
        sending = asyncio.ensure_future(self._send(call, picture, page))
        leaving = asyncio.ensure_future(call.gone())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            ending.cancel()
            picture.pages.discard(page)
            picture.last_page = time.monotonic()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, call: DashboardCall, picture: DashboardPicture, page: OpenPage) -> None:
        """Send all rows of the picture, then its events."""
        await call.begin(200, b"text/event-stream", [(b"cache-control", b"no-store")])
        await call.send(b"retry: %d\n\n" % _RETRY_MILLISECONDS)
        while not picture.ready.is_set() and not page.ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await picture.ready.wait()
            await call.send(HEARTBEAT)
        if not page.ended:
            page.forget()  # included in the rows sent below
            for message in picture.first():
                await call.send(message)
        async for message in page.messages():
            await call.send(message)
        await call.send(b"", more=False)


def _cookie_name(call: DashboardCall) -> str:
    """Return the name of the session cookie, which includes the port."""
    return f"dray-dashboard-{call.port}" if call.port.isdigit() else "dray-dashboard"


def _not_found(path: str) -> QuestionError:
    """Return the error for an unknown path."""
    return QuestionError(f"there is nothing at {path}", code="NotFound", status=404)
