"""Client of webhooks: one HTTPS POST, and the decoded AdmissionReview of an admission webhook.

Answers are limited in size and time, redirects are not followed, bodies are not decompressed, cookies are not stored,
and only the configured CA is trusted. Waiting for a connection to a busy webhook counts towards its timeout
(`webhook_connections`). `aiohttp` is imported on the first call, because most clusters have no webhooks.
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
    """The webhook gave no valid answer. The text has the reason."""


class Unanswered(WebhookCallFailed):
    """The webhook could not be reached or did not answer."""


class HookConfig(ClientConfig, Protocol):
    """Address of a webhook, and the CA bundle that its certificate must match."""

    @property
    def caBundle(self) -> str: ...


class ReviewStatus(msgspec.Struct):
    """Status in an AdmissionReview's response: code, message and reason of a denial."""

    code: int = 0
    message: str = ""
    reason: str = ""


class ReviewAnswer(msgspec.Struct):
    """Response of an AdmissionReview: whether the request is allowed, and the patch of a mutating webhook."""

    uid: str
    allowed: bool
    patch: str | None = None  # JSON patch in base64
    patchType: str | None = None
    status: ReviewStatus | None = None
    warnings: tuple[str, ...] | None = None


class ReviewEnvelope(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    response: ReviewAnswer | None = None


_decode = msgspec.json.Decoder(ReviewEnvelope).decode


class WebhookClient:
    """Calls webhooks over persistent connections."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._connections = WebhookConnections()

    async def call(
        self, config: WebhookClientConfig, review: dict[str, Any], timeout: float, user: str
    ) -> ReviewAnswer:
        """Send an AdmissionReview and return its response. `timeout` is in seconds.

        Raises WebhookCallFailed if there is no usable answer, or the answer has another UID.
        """
        try:
            answer = _answer(await self.post(config, msgspec.json.encode(review), timeout, LARGEST_ANSWER, user))
        except Unanswered as error:
            raise WebhookCallFailed(f"failed to call webhook: {error}") from error
        if answer.uid != review["request"]["uid"]:
            raise WebhookCallFailed(f"expected response.uid={review['request']['uid']!r}, got {answer.uid!r}")
        return answer

    async def post(self, config: HookConfig, body: bytes, timeout: float, largest: int, user: str = "") -> bytes:
        """Send a body to a webhook and return its answer, limited to `timeout` seconds and `largest` bytes.

        Users take turns for the connections of a webhook. Raises Unanswered if the webhook cannot be reached or does
        not answer in time, and its base class WebhookCallFailed if the answer is too large.
        """
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
        """Send a body to an address. Returns the answer's body.

        Raises Unanswered if the address cannot be reached or answers with another code than 200, WebhookCallFailed if
        the answer has more than `largest` bytes.
        """
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # `_connections` limits the connections of each webhook
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                auto_decompress=False,  # a small answer could decompress to a large one
                # cookies would accumulate, and reach other webhooks of the same host
                cookie_jar=aiohttp.DummyCookieJar(),
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
        """Return the TLS context that trusts a CA bundle, or the system's authorities if it is empty; cached.

        Raises WebhookCallFailed if the bundle cannot be read.
        """
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                pem = base64.b64decode(ca_bundle, validate=True).decode("ascii") if ca_bundle else None
                context = ssl.create_default_context(cadata=pem)
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Kubernetes does not require key identifiers
            except (binascii.Error, ValueError, ssl.SSLError) as error:
                raise WebhookCallFailed(f"the CA bundle cannot be read: {error}") from error
            self._contexts[ca_bundle] = context
        return context


async def _read(content: aiohttp.StreamReader, largest: int) -> bytes:
    """Return a complete body. Raises WebhookCallFailed if it is longer than `largest` bytes."""
    data = bytearray()
    async for chunk in content.iter_any():
        data += chunk
        if len(data) > largest:
            raise WebhookCallFailed(f"the answer is larger than {largest} bytes")
    return bytes(data)


def _cause(error: Exception) -> object:
    """Return the underlying error of the operating system or OpenSSL; aiohttp's text names Python objects."""
    return getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error


def _answer(data: bytes) -> ReviewAnswer:
    """Return the response in an AdmissionReview. Raises WebhookCallFailed."""
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:  # nested too deeply, or not text
        raise WebhookCallFailed(f"the answer is no AdmissionReview: {error}") from error
    if envelope.apiVersion != API_VERSION or envelope.kind != "AdmissionReview":
        raise WebhookCallFailed(
            f"expected an AdmissionReview of {API_VERSION}, got {envelope.apiVersion} {envelope.kind}"
        )
    if envelope.response is None:
        raise WebhookCallFailed("the answer has no response")
    return envelope.response
