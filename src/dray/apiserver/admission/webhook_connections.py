"""Limits on connections to webhooks: each webhook has its own, so a slow webhook does not block the others.

Each webhook has a few reserved connections and may use more from a shared pool, up to a maximum. If none is free,
callers wait; users take turns, so a user with a hundred calls does not block others from the same webhook. The
webhook's own timeout limits the wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dray.apiserver.limits import OWN_WEBHOOK_CONNECTIONS, SHARED_WEBHOOK_CONNECTIONS, WEBHOOK_CONNECTIONS
from dray.background.turns import UsersInTurn


class _Places:
    """Connections of one webhook: the number of open ones, and the waiting callers."""

    def __init__(self) -> None:
        self.taken = 0
        self.waiting = UsersInTurn()

    def __bool__(self) -> bool:
        return bool(self.taken or self.waiting)


class WebhookConnections:
    """Open connections to all webhooks of one client."""

    def __init__(
        self,
        own: int = OWN_WEBHOOK_CONNECTIONS,
        shared: int = SHARED_WEBHOOK_CONNECTIONS,
        most: int = WEBHOOK_CONNECTIONS,
    ) -> None:
        self._own = own
        self._shared = shared
        self._most = most
        self._webhooks: dict[str, _Places] = {}  # webhooks with open connections or waiting callers

    def __len__(self) -> int:
        """Return the number of open connections."""
        return sum(places.taken for places in self._webhooks.values())

    @asynccontextmanager
    async def one(self, webhook: str, user: str) -> AsyncIterator[None]:
        """Hold one connection of a webhook as an asynchronous context manager, after waiting for the user's turn."""
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
        """Wait for the user's turn to get a connection. If cancelled, a connection already granted is given back."""
        turn = places.waiting.add(user)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the caller got a connection and does not use it
                self._give_back(webhook, places)
            elif not places:
                self._webhooks.pop(webhook, None)
            raise

    def _is_free(self, places: _Places) -> bool:
        """Return whether a webhook may open another connection."""
        if places.taken < self._own:
            return True
        shared = sum(max(0, other.taken - self._own) for other in self._webhooks.values())
        return places.taken < self._most and shared < self._shared

    def _give_back(self, webhook: str, places: _Places) -> None:
        """Release a connection.

        The next one goes to the webhook with the fewest open connections that has waiting callers.
        """
        places.taken -= 1
        waited_for = [other for other in self._webhooks.values() if other.waiting]
        for other in sorted(waited_for, key=lambda one: one.taken):
            while self._is_free(other) and other.waiting.give():
                other.taken += 1
        if not places:
            self._webhooks.pop(webhook, None)
