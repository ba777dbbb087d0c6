"""Calling a webhook: one HTTPS POST, and what the answer of one about admission means.

Answers are read with a bound on size and time, redirects are not followed, nothing is decompressed, cookies are not kept,
and only the authority that the configuration names is trusted. Waiting for a connection of a busy webhook is part of its
timeout (`webhook_connections`). `aiohttp` is imported at the first call, since most clusters have no webhook. Left out:
which webhooks a request concerns (`webhooks`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dray.api.types.admissionregistration import WebhookClientConfig
from dray.apiserver.admission.webhook_connections import WebhookConnections
from dray.apiserver.admission.webhook_services import ClientConfig, ServiceAddress, Unreachable, place_of
from dray.apiserver.read.reader import Reader

if TYPE_CHECKING:
    import aiohttp

LARGEST_ANSWER = 1 << 20
API_VERSION = "admission.k8s.io/v1"


class WebhookCallFailed(Exception):
    """The webhook gave no answer that can be understood, and why."""


class Unanswered(WebhookCallFailed):
    """The webhook could not be reached, or did not answer."""


class HookConfig(ClientConfig, Protocol):
    """How to reach a webhook, and whom to trust about who it is."""

    @property
    def caBundle(self) -> str: ...


class ReviewStatus(msgspec.Struct):
    code: int = 0
    message: str = ""
    reason: str = ""


class ReviewAnswer(msgspec.Struct):
    """What a webhook says: yes or no, and what a mutating one wants to have changed."""

    uid: str
    allowed: bool
    patch: str | None = None  # base64 of a JSON patch
    patchType: str | None = None
    status: ReviewStatus | None = None
    warnings: tuple[str, ...] | None = None


class ReviewEnvelope(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    response: ReviewAnswer | None = None


_decode = msgspec.json.Decoder(ReviewEnvelope).decode


class WebhookClient:
    """Calls webhooks over connections that are kept for the next call."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._connections = WebhookConnections()

    async def call(
        self, config: WebhookClientConfig, review: dict[str, Any], timeout: float, user: str
    ) -> ReviewAnswer:
        """Ask whether a request of a user is allowed. Raises WebhookCallFailed."""
        try:
            answer = _answer(await self.post(config, msgspec.json.encode(review), timeout, LARGEST_ANSWER, user))
        except Unanswered as error:
            raise WebhookCallFailed(f"failed to call webhook: {error}") from error
        if answer.uid != review["request"]["uid"]:
            raise WebhookCallFailed(f"expected response.uid={review['request']['uid']!r}, got {answer.uid!r}")
        return answer

    async def post(self, config: HookConfig, body: bytes, timeout: float, largest: int, user: str = "") -> bytes:
        """What a webhook answers to a body, in so many seconds and bytes at most; in a user's turn. Raises WebhookCallFailed."""
        try:
            place = place_of(config, self._reader)
        except Unreachable as error:
            raise Unanswered(str(error)) from error
        try:
            async with asyncio.timeout(timeout), self._connections.one(place.shown, user):
                return await self._post(place, config.caBundle, body, largest)
        except TimeoutError:
            raise Unanswered(f'Post "{place.shown}": no answer within {timeout:g}s') from None

    async def aclose(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _post(self, place: ServiceAddress, ca_bundle: str, body: bytes, largest: int) -> bytes:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # `_connections` has limits, for each webhook
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                auto_decompress=False,  # a small answer could become a large one
                cookie_jar=aiohttp.DummyCookieJar(),  # which would grow, and tell other webhooks of the same host
            )
        context, url = self._context(ca_bundle), place.shown
        sent: dict[str, Any] = {"data": body, "ssl": context, "allow_redirects": False}
        if place.name:
            sent |= {"server_hostname": place.name, "headers": {"Host": place.name}}
        try:
            async with self._session.post(place.url, **sent) as response:
                if response.status != 200:
                    raise Unanswered(f'Post "{url}": the server answered {response.status}')
                return await _read(response.content, largest)
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f'Post "{url}": {_cause(error)}') from error

    def _context(self, ca_bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                pem = base64.b64decode(ca_bundle, validate=True).decode("ascii") if ca_bundle else None
                context = ssl.create_default_context(cadata=pem)
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Kubernetes asks for no identifiers of keys
            except (binascii.Error, ValueError, ssl.SSLError) as error:
                raise WebhookCallFailed(f"the CA bundle cannot be read: {error}") from error
            self._contexts[ca_bundle] = context
        return context


async def _read(content: aiohttp.StreamReader, largest: int) -> bytes:
    data = bytearray()
    async for chunk in content.iter_any():
        data += chunk
        if len(data) > largest:
            raise WebhookCallFailed(f"the answer is larger than {largest} bytes")
    return bytes(data)


def _cause(error: Exception) -> object:
    """The operating system's or OpenSSL's own words; aiohttp's around them name Python objects."""
    return getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error


def _answer(data: bytes) -> ReviewAnswer:
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:  # nested too deeply, or no text
        raise WebhookCallFailed(f"the answer is no AdmissionReview: {error}") from error
    if envelope.apiVersion != API_VERSION or envelope.kind != "AdmissionReview":
        raise WebhookCallFailed(
            f"expected an AdmissionReview of {API_VERSION}, got {envelope.apiVersion} {envelope.kind}"
        )
    if envelope.response is None:
        raise WebhookCallFailed("the answer has no response")
    return envelope.response
