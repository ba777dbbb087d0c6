"""One HTTP request of a browser: checks of its origin, reading of its body, and sending of its answer.

Every answer has headers that protect the page. `application` creates the answers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from dray.web.access import QuestionError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

MOST_BYTES = 1 << 20
JSON = b"application/json"
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE: list[Header] = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_CHANGING = ("POST", "DELETE")
_READING = ("GET", "HEAD")


class Names:
    """Host names that the server answers to.

    Other names are rejected, to prevent DNS rebinding; addresses are not names.
    """

    def __init__(self, *names: str, loopback_only: bool) -> None:
        self._names = {name.lower() for name in names} | {"localhost"}
        self._loopback_only = loopback_only

    def __contains__(self, host: object) -> bool:
        name = _without_port(str(host)).lower()
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback_only


class DashboardCall:
    """One HTTP request to the dashboard, and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self._receive = receive
        self._send = send
        self._headers: list[Header] = scope["headers"]
        self.begun = False

    def header(self, name: bytes) -> str:
        """Return the first header of a name, or ""."""
        return next((value.decode("latin-1") for key, value in self._headers if key == name), "")

    @property
    def port(self) -> str:
        """Port in the Host header, which is part of the cookie's name.

        Empty without the header; the whole header if it has no port.
        """
        return self.header(b"host").rpartition(":")[2] if _without_port(self.header(b"host")) else ""

    def check(self, names: Names) -> None:
        """Reject an unknown Host or a cross-site Origin.

        A changing request needs an Origin of this server unless the browser calls it same-origin. Raises
        QuestionError with status 403, or 405 for other methods.
        """
        host, origin = self.header(b"host"), self.header(b"origin")
        site = self.header(b"sec-fetch-site")
        if host not in names:
            raise _forbidden(f"this server does not answer to the host {host!r}")
        if origin and origin != f"{self.scope.get('scheme', 'http')}://{host}":
            raise _forbidden(f"this server does not answer pages of {origin!r}")
        if site == "cross-site" and self.scope["path"].find("/api/") >= 0:
            raise _forbidden("this server does not answer pages of other sites")
        if self.method in _CHANGING and not origin and site != "same-origin":
            raise _forbidden("expected the header Origin, as browsers send it")
        if self.method not in (*_CHANGING, *_READING):
            raise QuestionError(f"{self.method} is not allowed", code="MethodNotAllowed", status=405)

    def cookie(self, name: str) -> str:
        """Return the value of a cookie, or ""."""
        for part in self.header(b"cookie").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return ""

    async def body(self) -> bytes:
        """Return the whole body. Raises QuestionError unless it is JSON and not too large."""
        if self.header(b"content-type").partition(";")[0].strip() != JSON.decode():
            raise QuestionError("expected application/json", code="UnsupportedMediaType", status=415)
        chunks, size, more = [], 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise QuestionError("the request was cut off")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > MOST_BYTES:
                raise QuestionError(f"expected at most {MOST_BYTES} bytes", code="TooLarge", status=413)
            more = message.get("more_body", False)
        return b"".join(chunks)

    async def gone(self) -> None:
        """Wait until the browser disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # Answers

    async def reply(self, status: int, body: bytes, content_type: bytes, headers: list[Header] | None = None) -> None:
        """Send a complete response.

        The body is left out for HEAD.
        """
        length = [(b"content-length", b"%d" % len(body))]
        await self.begin(status, content_type, length + (headers or []))
        await self._send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def reply_json(self, status: int, tree: Any, headers: list[Header] | None = None) -> None:
        """Send a JSON response that must not be cached."""
        await self.reply(status, msgspec.json.encode(tree), JSON, [(b"cache-control", b"no-store"), *(headers or [])])

    async def refuse(self, status: int, code: str, text: str, field: str = "", retry: int = 0) -> None:
        """Send an error as JSON, unless the response has started.

        `field` names the wrong field, empty for none. `retry` is the number of seconds after which to try again, 0
        for none.
        """
        if not self.begun:
            headers = [(b"retry-after", b"%d" % retry)] if retry else []
            await self.reply_json(status, {"error": {"code": code, "text": text, "field": field}}, headers)

    async def begin(self, status: int, content_type: bytes, headers: list[Header]) -> None:
        """Send status code and headers of the response, with the headers that protect the page."""
        self.begun = True
        every = [(b"content-type", content_type), *SAFE, *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": every})

    async def send(self, piece: bytes, more: bool = True) -> None:
        """Send a piece of the body.

        `more` is whether other pieces follow.
        """
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


def _forbidden(text: str) -> QuestionError:
    return QuestionError(text, code="Forbidden", status=403)


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).strip("[]")
