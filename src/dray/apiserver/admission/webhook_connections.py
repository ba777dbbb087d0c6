"""How many connections to webhooks are open: each webhook has its own, so that a slow one keeps nobody from the others.

A webhook has a few connections that nobody else can take, and may take more from those that all share, up to a number.
Together they are bounded by what is shared and by the few of each webhook. Whoever finds none free waits; users take
turns, so that one who waits a hundred times does not keep others from the same webhook. Left out: how long somebody waits,
which is the webhook's own timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dray.apiserver.limits import OWN_WEBHOOK_CONNECTIONS, SHARED_WEBHOOK_CONNECTIONS, WEBHOOK_CONNECTIONS
from dray.background.turns import UsersInTurn


class _Places:
    """The connections of one webhook: how many are open, and who waits for one."""

    def __init__(self) -> None:
        self.taken = 0
        self.waiting = UsersInTurn()

    def __bool__(self) -> bool:
        return bool(self.taken or self.waiting)


class WebhookConnections:
    """The connections to all webhooks of one client."""

    def __init__(
        self,
        own: int = OWN_WEBHOOK_CONNECTIONS,
        shared: int = SHARED_WEBHOOK_CONNECTIONS,
        most: int = WEBHOOK_CONNECTIONS,
    ) -> None:
        self._own = own
        self._shared = shared
        self._most = most
        self._webhooks: dict[str, _Places] = {}  # those with open connections, or somebody who waits

    def __len__(self) -> int:
        """How many connections are open."""
        return sum(places.taken for places in self._webhooks.values())

    @asynccontextmanager
    async def one(self, webhook: str, user: str) -> AsyncIterator[None]:
        """Hold one connection of a webhook, after waiting for it in the user's turn."""
        places = self._webhooks.setdefault(webhook, _Places())
        if places.waiting or not self._is_free(places):
            await self._wait(webhook, places, user)
        else:
            places.taken += 1
        try:
            yield
        finally:
            self._give_back(webhook, places)

    async def _wait(self, webhook: str, places: _Places, user: str) -> None:
        turn = places.waiting.add(user)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given a connection that it does not use
                self._give_back(webhook, places)
            elif not places:
                self._webhooks.pop(webhook, None)
            raise

    def _is_free(self, places: _Places) -> bool:
        if places.taken < self._own:
            return True
        shared = sum(max(0, other.taken - self._own) for other in self._webhooks.values())
        return places.taken < self._most and shared < self._shared

    def _give_back(self, webhook: str, places: _Places) -> None:
        """Close a connection. The next goes to the webhook that has the fewest of those for which somebody waits."""
        places.taken -= 1
        waited_for = [other for other in self._webhooks.values() if other.waiting]
        for other in sorted(waited_for, key=lambda one: one.taken):
            while self._is_free(other) and other.waiting.give():
                other.taken += 1
        if not places:
            self._webhooks.pop(webhook, None)
