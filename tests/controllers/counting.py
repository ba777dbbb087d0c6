"""Clients that count what controllers ask them at the same time: in one batch, or in one round of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from dray.api.errors import Forbidden
from dray.api.types.core import Pod
from dray.client import Client
from tests.waiting import eventually


class Held:
    """Keeps every creation and deletion of a pod waiting until the test releases all that wait: one batch."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: list[asyncio.Future[None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def _held(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    async def create(self, type_: type[Any], *arguments: Any, **named: Any) -> Any:
        if type_ is Pod:
            await self._held()
        return await self._client.create(type_, *arguments, **named)

    async def delete(self, type_: type[Any], *arguments: Any, **named: Any) -> None:
        if type_ is Pod:
            await self._held()
        await self._client.delete(type_, *arguments, **named)

    async def release(self, size: int, *, refuse: int = 0) -> int:
        """Wait for a batch of that size and let it go; so many of it are refused. Returns the size that it had."""

        async def complete() -> bool:
            return len(self._waiting) >= size

        await eventually(complete)
        for _ in range(20):  # more than are expected would come in these rounds
            await asyncio.sleep(0)
        waiting, self._waiting = self._waiting, []
        for number, future in enumerate(waiting):
            if number < refuse:
                future.set_exception(Forbidden("no more pods"))
            else:
                future.set_result(None)
        return len(waiting)


class PerRound:
    """Counts the writes that were made in each round of the event loop."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._round = 0
        self.writes: Counter[int] = Counter()
        self._tick()

    def _tick(self) -> None:
        self._round += 1
        asyncio.get_running_loop().call_soon(self._tick)

    def __getattr__(self, name: str) -> Any:
        if name in ("create", "patch", "delete"):
            self.writes[self._round] += 1
        return getattr(self._client, name)

    @property
    def most(self) -> int:
        return max(self.writes.values(), default=0)
