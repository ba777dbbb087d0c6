"""Informers: local copies of all objects of one type, kept up to date by a list and a watch.

Controllers and the scheduler read these copies instead of the server. Handlers are plain functions that get
batches of deltas in the informer's task, so a thousand events cost one call instead of a thousand tasks. The
deltas of an object form a chain: each `old` is the previous `new`, even across lost watches, because a new list
is compared with the copy. There is no periodic resync; callers can use a work queue for that.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, cast

from dray.api.errors import ApiError, Expired, Forbidden, Gone, NotFound, ServiceUnavailable
from dray.background.turns import ALLOWANCE, EVENT, batched, in_turns, take
from dray.client.backoff import Backoff
from dray.client.clock import Clock, SystemClock
from dray.client.interface import Client, Object, T, WatchEvent, resource_of
from dray.client.outage import Outage
from dray.shrinking import shrink

log = logging.getLogger(__name__)

# Timeout of a watch, which also ends a dead connection. It is random so that reconnects are spread, as servers do.
_WATCH_SECONDS = (300.0, 600.0)
# Interval of retries for a resource that is not served (an older cluster, or a disabled feature gate).
_UNSERVED_SECONDS = 30.0
# A shorter watch without any event counts as a failure, so that a broken server is not flooded with requests.
_SHORT_WATCH_SECONDS = 1.0
# Maximum number of changes that an index has to process in a query, so that queries stay fast.
_MOST_CHANGES = 1_000
# Number of objects from which an index is built before its first query, so that the first query is fast too.
# Building an index of this size takes about 4 ms. Keeping an unused index up to date costs more with every change.
_MANY_OBJECTS = 5_000

# Number of events that are passed on before other tasks of the process may run.
_EVENTS_AT_ONCE = ALLOWANCE // 2 // EVENT

Key = tuple[str, str]
"""(namespace, empty for cluster-scoped objects; name)."""


class Delta(NamedTuple, Generic[T]):
    """One change of an object: created (`old` is None), updated, or deleted (`new` is None)."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The newest known state: `new`, or `old` after a deletion."""
        return cast(T, self.new if self.new is not None else self.old)


Objects = list[T]
Deltas = list[Delta[T]]
DeltaHandler = Callable[[Deltas[T]], None]
IndexFunction = Callable[[T], Iterable[str]]


def key_of(obj: Object) -> Key:
    """Return the key of an object: namespace and name."""
    return obj.metadata.namespace, obj.metadata.name


class _Index(Generic[T]):
    """Index of objects by the values that a function returns for them.

    The index is built on the first query, because most indexes of a frequently changing resource are for rare
    events. It is updated on later queries, because most objects change several times in between.
    """

    def __init__(self, function: IndexFunction[T], objects: dict[Key, T], changes: list[Key]) -> None:
        """`objects` and `changes` are shared with the informer."""
        self._function = function
        self._objects = objects
        self._changes = changes
        self._known: int | None = None  # number of processed changes; None before the index is built
        self._entries: dict[str, dict[Key, None]] = {}
        self._values: dict[Key, tuple[str, ...]] = {}  # object → its index values, if it has any

    def find(self, value: str) -> Objects[T]:
        if self._known != len(self._changes):
            self._make_current()
        return [self._objects[key] for key in self._entries.get(value, ())]

    def count(self, value: str) -> int:
        self._make_current()
        return len(self._entries.get(value, ()))

    def catch_up(self) -> None:
        """Process the remaining changes, because the informer is about to clear them."""
        if self._known is not None or len(self._objects) > _MANY_OBJECTS:
            self._make_current()
            self._known = 0
            shrink(self._entries)
            shrink(self._values)

    def _make_current(self) -> None:
        if self._known is None:
            self._work_in(self._objects)
            self._known = len(self._changes)
        elif self._known < len(self._changes):
            self._work_in_news()

    def _work_in_news(self) -> None:
        self._work_in(dict.fromkeys(self._changes[self._known :]))
        self._known = len(self._changes)

    def _work_in(self, keys: Iterable[Key]) -> None:
        for key in keys:
            new = self._objects.get(key)
            before = self._values.get(key, ())
            after = () if new is None else tuple(self._function(new))
            if before != after:  # most changes do not affect an index
                self._move(key, before, after)

    def _move(self, key: Key, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        for value in {*before}.difference(after) if before else ():
            bucket = self._entries[value]
            del bucket[key]
            if not bucket:
                del self._entries[value]
        for value in after:
            self._entries.setdefault(value, {})[key] = None
        if after:
            self._values[key] = after
        else:
            del self._values[key]


class Informer(Generic[T]):
    """Local copy of all objects of `type_` that match the selectors.

    Reads (`get`, `list`, `by_index`) never await. Handlers must not block. If a handler raises an exception, it
    is logged and the other handlers still run. A handler that is added later first gets all existing objects.
    """

    def __init__(
        self,
        client: Client,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        gather: float = 0.0,
        outage: Outage | None = None,
    ) -> None:
        """`gather` is the pause in seconds between two batches, for consumers that prefer larger batches.

        Informers that share an `outage` log a server that does not answer once.
        """
        self._client = client
        self._gather = gather
        self._type = type_
        self._scope: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._clock = clock or SystemClock()
        self._backoff = Backoff(self._clock)
        self._outage = outage or Outage(self._clock)
        self._objects: dict[Key, T] = {}
        self._changes: list[Key] = []  # changed keys that indexes may not have processed yet
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[DeltaHandler[T]] = []
        self._version = ""
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._denied = ""
        self._unserved = False
        self._name = resource_of(type_).qualified

    @property
    def has_synced(self) -> bool:
        """Whether the first list has been delivered to the handlers."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the first list has been delivered to the handlers."""
        await self._synced.wait()

    @property
    def denied(self) -> str:
        """The server's message if permission to list or watch is missing (then the copy is outdated), or ""
        otherwise.
        """
        return self._denied

    async def settled(self) -> None:
        """Wait until the first list has been delivered, or the server has denied it for lack of permission."""
        await self._answered.wait()

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the copy; empty before the first list."""
        return self._version

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """Return an object from the copy, or None if the copy lacks it. The namespace of cluster-scoped objects is
        "".
        """
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Objects[T]:
        """Return all objects (without namespace), or those in a namespace, as a new list."""
        if not namespace:
            return [*self._objects.values()]
        return [o for (where, _), o in self._objects.items() if where == namespace]

    def by_index(self, index: str, value: str) -> Objects[T]:
        """Return the objects for which the index function returns `value`; empty if there are none.

        Raises KeyError if there is no such index.
        """
        return self._indexes[index].find(value)

    def count(self, index: str, value: str) -> int:
        """Return the number of objects for which the index function returns `value`.

        Raises KeyError if there is no such index.
        """
        return self._indexes[index].count(value)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index. If the name exists already, the existing index is kept."""
        if name not in self._indexes:
            self._indexes[name] = _Index(function, self._objects, self._changes)

    def add_handler(self, handler: DeltaHandler[T]) -> Callable[[], None]:
        """Call `handler` with every batch of deltas from now on, after one batch with all existing objects.

        Returns a function that removes the handler.
        """
        self._handlers.append(handler)
        if self._objects:
            self._call(handler, [Delta(None, obj) for obj in self._objects.values()])

        def remove() -> None:
            self._handlers.remove(handler)

        return remove

    async def run(self) -> None:
        """List and watch repeatedly until cancelled.

        No failure ends this loop, not even a bug, because nothing would report that the copy is outdated.
        """
        while True:
            try:
                await self._keep_up()
            except (Expired, Gone):
                log.debug("%s: version %s is gone, listing again", self._name, self._version)
                self._version = ""
            except Forbidden as error:
                self._deny(str(error))
            except ServiceUnavailable as error:
                self._outage.report(self._name, error)
            except ApiError as error:
                log.warning("%s: list or watch failed: %s", self._name, error)
            except Exception:
                log.exception("%s: list or watch failed, listing again", self._name)
                self._version = ""  # list again, because the failing event may not recur in a list
            else:
                continue
            await self._backoff.pause()

    def _deny(self, refusal: str) -> None:
        """Log a missing permission once. The informer keeps retrying, because the permission may be granted later."""
        if refusal != self._denied:
            log.error("%s cannot be followed, which takes the verbs list and watch: %s", self._name, refusal)
        self._denied = refusal
        self._answered.set()

    def _allow(self) -> None:
        self._unserved = False
        if self._denied:
            log.warning("%s can be followed now", self._name)
        self._denied = ""

    async def _keep_up(self) -> None:
        """List if necessary, then watch. A resource that the server does not serve counts as an empty list for a
        while.

        NotFound alone is not sufficient: a proxy without its server also returns it, although no object was deleted.
        """
        try:
            if not self._version:
                await self._relist()
            await self._follow()
        except NotFound:
            if await self._client.serves(self._type):
                raise
            if not self._unserved:
                log.warning("%s: this server has no such resource, which counts as no objects", self._name)
            self._unserved = True
            await self._replace({}, "")
            await self._clock.sleep(_UNSERVED_SECONDS)

    async def _relist(self) -> None:
        page = await self._client.list(self._type, **self._scope)
        self._allow()
        await self._replace({key_of(obj): obj for obj in page.items}, page.resource_version)

    async def _follow(self) -> None:
        started = self._clock.monotonic()
        timeout = random.uniform(*_WATCH_SECONDS)
        heard = False
        watch = self._client.watch(self._type, resource_version=self._version, timeout=timeout, **self._scope)
        async with aclosing(watch):
            async for batch in watch:
                if not heard:
                    heard = True
                    self._allow()
                    self._backoff.reset()
                for some in batched(batch, _EVENTS_AT_ONCE):
                    await take(EVENT * len(some))
                    self._apply(some)
                some = ()
                del batch  # free its objects: they may be large, and the next batch may take long
                if self._gather:
                    await self._clock.sleep(self._gather)
        self._allow()
        if not heard and self._clock.monotonic() - started < _SHORT_WATCH_SECONDS:
            await self._backoff.pause()

    def _apply(self, batch: Sequence[WatchEvent[T]]) -> None:
        """Apply a batch of watch events to the copy, and pass the changes to the handlers."""
        deltas: Deltas[T] = []
        for event in batch:
            obj = event.object
            if event.type != "BOOKMARK":
                key = key_of(obj)
                old = self._objects.get(key)
                new = None if event.type == "DELETED" else obj
                if _differ(old, new):
                    self._change(key, new)
                    deltas.append(Delta(old, new))
        self._version = batch[-1].resource_version
        self._tell(deltas)
        if batch[-1].type == "BOOKMARK":  # there were no changes for a minute
            self._catch_up()
            shrink(self._objects)

    async def _replace(self, objects: dict[Key, T], version: str) -> None:
        """Replace the copy by a list, and pass the changes to the handlers; missing objects were deleted."""
        async for some in in_turns([*self._objects.items()], EVENT):
            gone: Deltas[T] = []
            for key, old in some:
                current = objects.get(key)
                if current is None or current.metadata.uid != old.metadata.uid:
                    self._change(key, None)
                    gone.append(Delta(old, None))
            self._tell(gone)
        async for some in in_turns([*objects.items()], EVENT):
            deltas: Deltas[T] = []
            for key, new in some:
                known = self._objects.get(key)
                if _differ(known, new):
                    self._change(key, new)
                    deltas.append(Delta(known, new))
            self._tell(deltas)
        self._version = version
        self._synced.set()
        self._answered.set()

    def _change(self, key: Key, new: T | None) -> None:
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        self._changes.append(key)

    def _tell(self, deltas: Deltas[T]) -> None:
        if len(self._changes) > _MOST_CHANGES:
            self._catch_up()
        if deltas:
            for handler in [*self._handlers]:
                self._call(handler, deltas)

    def _catch_up(self) -> None:
        """Update the indexes and forget the changes."""
        for index in self._indexes.values():
            index.catch_up()
        self._changes.clear()

    def _call(self, handler: DeltaHandler[T], deltas: Deltas[T]) -> None:
        try:
            handler(deltas)
        except Exception:
            log.exception("%s: a handler failed on %d deltas", self._name, len(deltas))


def _differ(old: Object | None, new: Object | None) -> bool:
    """Return whether two states of an object differ in their resource version; a restarted watch repeats known
    states.

    None is the state of an object that does not exist.
    """
    if old is None or new is None:
        return old is not new
    return old.metadata.resourceVersion != new.metadata.resourceVersion
