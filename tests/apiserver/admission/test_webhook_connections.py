"""Connections to webhooks: a slow webhook takes its own, and nobody else's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from dray.apiserver.admission.webhook_connections import WebhookConnections
from dray.apiserver.limits import WEBHOOK_CONNECTIONS as MOST
from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import RULE, Hook, hooking
from tests.apiserver.asking import HttpAsker, created, serving
from tests.waiting import eventually

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
SLOW = 140  # requests that wait for the slow webhook


class Held(Hook):
    """Answers nobody before it is told to."""

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.released = asyncio.Event()

    async def handle(self, received: web.Request) -> web.Response:
        review = await received.json()
        self.requests.append(review["request"])
        await self.released.wait()
        return web.json_response(
            {**review, "request": None, "response": {"uid": review["request"]["uid"], "allowed": True}}
        )


async def configure(admin: HttpAsker, hook: Hook, kind: str, resource: str, **fields: Any) -> None:
    tree = hook.configuration(f"{resource}.example.com", rules=[{**RULE, "resources": [resource]}], **fields)
    plural = f"{kind.lower()}webhookconfigurations"
    await created(admin, f"{ADMISSION}/{plural}", {**tree, "kind": f"{kind}WebhookConfiguration"})


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_a_slow_webhook_keeps_nobody_from_another(keys: Keys, kind: str) -> None:
    async with serving(keys) as admin, hooking(keys, Held) as slow, hooking(keys) as guard:
        await configure(admin, slow, kind, "configmaps", timeoutSeconds=30)
        await configure(admin, guard, kind, "secrets", failurePolicy="Ignore", timeoutSeconds=10)
        writing = [
            asyncio.ensure_future(admin("POST", CONFIG, {"metadata": {"name": f"c{number}"}})) for number in range(SLOW)
        ]
        try:
            await eventually(lambda: len(slow.requests) >= MOST)
            code, _ = await admin("POST", SECRETS, {"metadata": {"name": "s"}})
            asked = len(slow.requests)
        finally:
            slow.released.set()
        assert (code, asked) == (201, MOST)
        assert len(guard.requests) == 1, "the guard was left out"
        assert [code for code, _ in await asyncio.gather(*writing)] == [201] * SLOW


async def test_who_waits_for_a_busy_webhook_waits_for_its_timeout(keys: Keys) -> None:
    async with serving(keys) as admin, hooking(keys, Held) as slow:
        await configure(admin, slow, "Validating", "configmaps", timeoutSeconds=1)
        writing = [admin("POST", CONFIG, {"metadata": {"name": f"c{number}"}}) for number in range(MOST + 6)]
        answers = await asyncio.gather(*writing)
        assert [code for code, _ in answers] == [500] * (MOST + 6)
        assert all("no answer within 1s" in body["message"] for _, body in answers)
        slow.released.set()
        assert (await admin("POST", CONFIG, {"metadata": {"name": "later"}}))[0] == 201


async def test_each_webhook_has_connections_that_others_cannot_take() -> None:
    connections = WebhookConnections(own=2, shared=3, most=4)
    async with AsyncExitStack() as held:
        for webhook in ("a", "a", "a", "a", "b", "b", "b", "c", "c"):
            await held.enter_async_context(connections.one(webhook, "u"))
        for webhook in ("a", "b", "c"):  # a has as many as one may have, and of the shared ones none is left
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), connections.one(webhook, "u"):
                    pass
        async with connections.one("d", "u"), connections.one("d", "u"):
            assert len(connections) == 11
    assert len(connections) == 0


async def test_users_take_turns_at_a_busy_webhook() -> None:
    connections, served = WebhookConnections(own=1, shared=0, most=1), list[str]()

    async def use(user: str) -> None:
        async with connections.one("a", user):
            served.append(user)

    async with connections.one("a", "busy"):
        waiting = [asyncio.ensure_future(use(user)) for user in ("busy", "busy", "busy", "admin")]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert served == ["busy", "admin", "busy", "busy"]


async def test_a_connection_that_comes_free_goes_to_the_webhook_with_the_fewest() -> None:
    connections, served = WebhookConnections(own=1, shared=2, most=9), list[str]()

    async def use(webhook: str) -> None:
        async with connections.one(webhook, "u"):
            served.append(webhook)
            await asyncio.sleep(0)

    async with AsyncExitStack() as held:
        for webhook in ("a", "a", "a", "b"):
            await held.enter_async_context(connections.one(webhook, "u"))
        waiting = [asyncio.ensure_future(use(webhook)) for webhook in ("a", "b")]
        await asyncio.sleep(0)
        assert served == []
    await asyncio.gather(*waiting)
    assert sorted(served) == ["a", "b"]


async def test_who_stops_waiting_leaves_the_connection_to_the_next() -> None:
    connections = WebhookConnections(own=1, shared=0, most=1)

    async def use() -> bool:
        async with connections.one("a", "u"):
            return True

    async with connections.one("a", "u"):
        first, second = asyncio.ensure_future(use()), asyncio.ensure_future(use())
        await asyncio.sleep(0)
    first.cancel()  # it has been given the connection, and does not know it yet
    assert await second
    assert first.cancelled()
    assert len(connections) == 0
