"""Copies of the objects that an identity may read: one informer per type, started and stopped as rights change.

When a type may no longer be read, its handler receives deletions, so that no rows remain. `rights` determines the
rights, `picture` uses the objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dray.client import Client, Delta, Deltas, Informer
from dray.web.rights import Scopes, VisibleScope

GATHER_SECONDS = 0.1  # changes within this time are read together, because each read costs a busy server something

DeltaHandlers = Mapping[type[Any], Callable[[Deltas[Any]], None]]


class Following:
    """The informers of one identity."""

    def __init__(self, client: Client, namespace: str, handlers: DeltaHandlers) -> None:
        self._client = client
        self._namespace = namespace
        self._handlers = handlers
        self._informers: dict[type[Any], Informer[Any]] = {}
        self._tasks: dict[type[Any], asyncio.Task[None]] = {}
        self.scopes: Scopes = {}

    async def follow(self, scopes: Scopes) -> None:
        """Start and stop informers for the current rights, and wait until all have synced."""
        for type_, scope in scopes.items():
            if self.scopes.get(type_) is not scope:
                await self._stop(type_)
                if scope in (VisibleScope.ALL, VisibleScope.NAMESPACE):
                    self._start(type_, self._namespace if scope is VisibleScope.NAMESPACE else "")
        self.scopes = scopes
        for informer in [*self._informers.values()]:
            await informer.synced()

    def get(self, type_: type[Any], namespace: str, name: str) -> Any:
        """Return an object, or None if it does not exist or its type is not followed."""
        informer = self._informers.get(type_)
        return informer.get(namespace, name) if informer is not None else None

    def copies(self) -> dict[type[Any], list[Any]]:
        """Return all objects by type."""
        return {type_: informer.list() for type_, informer in self._informers.items()}

    def types_of(self, scope: VisibleScope) -> frozenset[type[Any]]:
        """Return the types that are shown to this extent."""
        return frozenset(type_ for type_, found in self.scopes.items() if found is scope)

    async def close(self) -> None:
        for type_ in [*self._tasks]:
            await self._end(type_)

    def _start(self, type_: type[Any], namespace: str) -> None:
        """Start an informer for a type in a namespace, or in all if it is empty."""
        informer: Informer[Any] = Informer(self._client, type_, namespace, gather=GATHER_SECONDS)
        informer.add_handler(self._handlers[type_])
        self._informers[type_] = informer
        self._tasks[type_] = asyncio.create_task(informer.run(), name=f"dashboard {type_.__name__}")

    async def _stop(self, type_: type[Any]) -> None:
        """Stop an informer and send deletions of all its objects to the handler."""
        await self._end(type_)
        informer = self._informers.pop(type_, None)
        if informer is not None and len(informer):
            self._handlers[type_]([Delta(one, None) for one in informer.list()])

    async def _end(self, type_: type[Any]) -> None:
        """Stop the task of an informer.

        Does nothing if there is none.
        """
        task = self._tasks.pop(type_, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
