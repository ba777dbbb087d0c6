"""Informers shared by all controllers of a process: one per type, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

from dray.client.clock import Clock, SystemClock
from dray.client.informer import Informer
from dray.client.interface import Client, T
from dray.client.outage import Outage


class SharedInformers:
    """Provides informers; the same one for each request of a type.

    Request informers, add indexes and handlers, then call `start`. Informers requested later run after the next
    `start`.
    """

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self.client = client
        self._clock = clock
        self._outage = Outage(clock or SystemClock())
        self._informers: dict[type[Any], Informer[Any]] = {}
        self._tasks: dict[type[Any], asyncio.Task[None]] = {}

    def informer(self, type_: type[T]) -> Informer[T]:
        """Return the informer of all objects of a type."""
        if type_ not in self._informers:
            self._informers[type_] = Informer(self.client, type_, clock=self._clock, outage=self._outage)
        return cast("Informer[T]", self._informers[type_])

    def followed(self, type_: type[T]) -> list[T]:
        """Return all objects of a type; an empty list if no caller has requested its informer."""
        informer = self._informers.get(type_)
        return informer.list() if informer is not None else []

    async def start(self) -> None:
        """Start all informers that are not running yet."""
        for type_, informer in self._informers.items():
            if type_ not in self._tasks:
                self._tasks[type_] = asyncio.create_task(informer.run(), name=f"informer {type_.__name__}")

    async def synced(self, without: Collection[type[Any]] = ()) -> None:
        """Wait until all informers, except those of the types in `without`, have delivered their first list."""
        for type_, informer in [*self._informers.items()]:
            if type_ not in without:
                await informer.synced()

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    async def settled(self) -> None:
        """Wait until all informers have delivered their first list or were denied it for lack of permission."""
        for informer in [*self._informers.values()]:
            await informer.settled()

    @property
    def denied(self) -> dict[type[Any], str]:
        """The server's message for each type that cannot be watched for lack of permission. Empty if all can be."""
        return {type_: informer.denied for type_, informer in self._informers.items() if informer.denied}

    async def stop(self) -> None:
        """End all watches. The copies remain readable but are no longer updated."""
        tasks = [*self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class InformerSelection(SharedInformers):
    """The informers that one user of SharedInformers has requested; started and stopped with the others.

    Reports whether these informers have synced and which of them were denied.
    """

    def __init__(self, shared: SharedInformers) -> None:
        super().__init__(shared.client)
        self._shared = shared

    def informer(self, type_: type[T]) -> Informer[T]:
        informer = self._shared.informer(type_)
        self._informers[type_] = informer
        return informer

    async def start(self) -> None:
        await self._shared.start()
