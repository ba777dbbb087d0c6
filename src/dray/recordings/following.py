"""Following a cluster: every change of a recorded object becomes an event, in the server's order.

Informers list and watch each type. Objects are reduced to recorded fields, and a change that does not affect these,
such as a heartbeat, is skipped. Left out: the file (`history`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dray.api.errors import Forbidden, NotFound
from dray.api.naming import typed_key
from dray.api.resources import BY_TYPE
from dray.api.wire import Wire
from dray.client import Client, Deltas
from dray.client.informer import Informer
from dray.client.interface import WatchEvent
from dray.recordings.anonymous import Aliases, names_in, renamed
from dray.recordings.history import DeletedObject, RecordedEvent
from dray.recordings.recording import TYPES, Recording, record, reduced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WriteEvents = Callable[[Iterable[RecordedEvent]], None]


class _OneByOne(Informer[Any]):
    """Informer that processes changes one by one, so that `resource_version` is the version of the current change."""

    def _apply(self, batch: Sequence[WatchEvent[Any]]) -> None:
        for event in batch:
            super()._apply([event])


class Follower:
    """Follows a cluster. `begin` returns the recording; afterwards every change is passed to `write`."""

    def __init__(self, client: Client, now: Callable[[], float], *, anonymous: bool = False) -> None:
        self._client = client
        self._now = now
        self._anonymous = anonymous
        self._alias: Callable[[str], str] | None = None
        self._informers: list[_OneByOne] = []
        self._known: dict[tuple[type[Any], str, str], Wire] = {}
        self._write: WriteEvents = lambda events: None
        self._begun: float | None = None
        self.unread: list[str] = []  # resources that the user may not list

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Follower]:
        """Context manager: keep copies of all readable objects within the block."""
        readable = [type_ for type_ in TYPES if await self._is_readable(type_)]
        self.unread = sorted(BY_TYPE[type_].plural for type_ in TYPES if type_ not in readable)
        for type_ in readable:
            informer = _OneByOne(self._client, type_)
            informer.add_handler(lambda deltas, informer=informer: self._heard(informer, deltas))  # type: ignore[misc]
            self._informers.append(informer)
        tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
        try:
            for informer in self._informers:
                await informer.synced()
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, time: str, source: str, open_: Callable[[Recording], WriteEvents]) -> Recording:
        """Record the current objects; later changes go to the function returned by `open_`.

        No change is lost in between.
        """
        objects = self.objects()
        kept = [reduced(one) for one in objects]
        if self._anonymous:
            self._alias = Aliases(names_in(kept))
        self._known = {typed_key(one): self._shown(one) for one in objects}
        made = record(self._known.values(), time=time, source="" if self._anonymous else source, unread=self.unread)
        made = msgspec.structs.replace(made, anonymous=self._anonymous)
        self._write, self._begun = open_(made), self._now()
        return made

    def objects(self) -> list[Any]:
        """Return the current objects, by type and last change."""
        return [one for informer in self._informers for one in _by_age(informer.list())]

    async def _is_readable(self, type_: type[Any]) -> bool:
        """Whether the user may list objects of this type. True for types that are not served yet."""
        try:
            await self._client.list(type_, limit=1)
        except Forbidden:
            return False
        except NotFound:
            return True  # not served now, but may be later
        return True

    def _heard(self, informer: Informer[Any], deltas: Deltas[Any]) -> None:
        if self._begun is None:
            return
        at, version = round(self._now() - self._begun, 4), _number(informer.resource_version)
        self._write(
            [event for delta in deltas if (event := self._event(at, version, delta.object, delta.new)) is not None]
        )

    def _event(self, at: float, version: int, one: Any, new: Any) -> RecordedEvent | None:
        """Return the event for a change, or None if no recorded field changed.

        `new` is None for a deleted object. `at` is in seconds since the beginning, `version` the resource version.
        """
        key = typed_key(one)
        if new is None:
            known = self._known.pop(key, None)
            return None if known is None else RecordedEvent(at, version, gone=_gone(known))
        shown = self._shown(new)
        if self._known.get(key) == shown:
            return None
        self._known[key] = shown
        return RecordedEvent(at, version, put=msgspec.to_builtins(shown))

    def _shown(self, one: Wire) -> Wire:
        """Return the object reduced to recorded fields, with aliases if anonymous."""
        kept = reduced(one)
        return kept if self._alias is None else renamed(kept, self._alias)


def _by_age(objects: Sequence[Any]) -> list[Any]:
    """Sort objects by last change, so that nodes are mostly in the order in which a scheduler saw them."""
    return sorted(objects, key=lambda one: _number(one.metadata.resourceVersion))


def _number(version: str) -> int:
    """Return a resource version as a number, 0 if it is none."""
    return int(version) if version.isdecimal() else 0


def _gone(one: Wire) -> DeletedObject:
    known = cast(Any, one)
    return DeletedObject(known.apiVersion, known.kind, known.metadata.name, known.metadata.namespace)
