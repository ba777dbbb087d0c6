"""A webhook for tests: a real HTTPS server with its own authority."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiohttp import web
from multidict import CIMultiDictProxy

from dray.api.wire import Tree
from dray.apiserver.security.certificates import Keys

Answer = Callable[[Tree], Tree | web.Response]
H = TypeVar("H", bound="Hook")
RULE = {
    "operations": ["*"],
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*/*"],
}


class Hook:
    """A webhook server that remembers what it was asked and answers as it is told."""

    def __init__(self, keys: Keys) -> None:
        self.authority = base64.b64encode(keys.authority).decode()
        self.requests: list[Tree] = []
        self.headers: list[CIMultiDictProxy[str]] = []
        self.answer: Answer = lambda request: {"allowed": True}
        self.wait = 0.0
        self.together: asyncio.Barrier | None = None  # nobody gets an answer before as many have asked
        self.url = ""

    async def handle(self, received: web.Request) -> web.Response:
        self.headers.append(received.headers)
        review = await received.json()
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        self.requests.append(review["request"])
        await asyncio.sleep(self.wait)
        if self.together is not None:
            await self.together.wait()
        answer = self.answer(review["request"])
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], **answer}
        return web.json_response({**review, "request": None, "response": response})

    def configuration(self, name: str = "check.example.com", **fields: Any) -> Tree:
        webhook = {
            "name": name,
            "clientConfig": {"url": self.url, "caBundle": self.authority},
            "rules": [RULE],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }


@asynccontextmanager
async def hooking(keys: Keys, make: Callable[[Keys], H] = Hook) -> AsyncIterator[H]:  # type: ignore[assignment]  # H is a Hook
    """A webhook that listens on a free port of this machine."""
    hook = make(keys)
    app = web.Application()
    app.router.add_post("/check", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate_file, keys.key_file)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    hook.url = f"https://127.0.0.1:{port}/check"
    yield hook
    await runner.cleanup()
