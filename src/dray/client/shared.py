"""One informer a type, shared by all controllers of a process, started and stopped together.

Left out: what the copies are used for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

from dray.client.clock import Clock
from dray.client.informer import Informer
from dray.client.interface import Client, T


class SharedInformers:
    """Gives out informers; whoever asks twice for the same type gets the same one.

    Ask for informers, add indexes and handlers, then `start`. What is asked for later runs after the next `start`.
    """

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self.client = client
        self._clock = clock
        self._informers: dict[type[Any], Informer[Any]] = {}
        self._tasks: dict[type[Any], asyncio.Task[None]] = {}

    def informer(self, type_: type[T]) -> Informer[T]:
        """The informer of all objects of a type."""
        if type_ not in self._informers:
            self._informers[type_] = Informer(self.client, type_, clock=self._clock)
        return cast("Informer[T]", self._informers[type_])

    async def start(self) -> None:
        """Run what does not run yet."""
        for type_, informer in self._informers.items():
            if type_ not in self._tasks:
                self._tasks[type_] = asyncio.create_task(informer.run(), name=f"informer {type_.__name__}")

    async def synced(self, without: Collection[type[Any]] = ()) -> None:
        """Wait until every informer has delivered its first list, those of the types `without` left out."""
        for type_, informer in [*self._informers.items()]:
            if type_ not in without:
                await informer.synced()

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    async def settled(self) -> None:
        """Wait until every informer has delivered its first list or was refused it for lack of a permission."""
        for informer in [*self._informers.values()]:
            await informer.settled()

    @property
    def denied(self) -> dict[type[Any], str]:
        """The server's refusal for each type that may not be followed."""
        return {type_: informer.denied for type_, informer in self._informers.items() if informer.denied}

    async def stop(self) -> None:
        """End all watches; the copies stay readable and grow old."""
        tasks = [*self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class InformerSelection(SharedInformers):
    """Those of some shared informers that one user has asked for: they are started and stopped with the others.

    Tells what that user waits for, and what is missing for it alone.
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
