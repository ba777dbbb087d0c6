"""Watching: delivery of events to subscribers.

A subscription is a function that is called with batches of events during the commit that causes them: without a
task, a queue or a turn of the event loop. A watch is a subscription with a bounded queue, for consumers that
wait, such as HTTP responses. A consumer that is too slow is dropped, because an unbounded queue would let one
slow client exhaust the server's memory. Consumers apply selectors themselves: an event has the states before and
after the change.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal

from msgspec import Struct

from dray.store.errors import Closed, Lagged, StoreError
from dray.store.log import KeyVersion

logger = logging.getLogger(__name__)

Deliver = Callable[[Sequence["StoreEvent"]], None]
Lost = Callable[[StoreError], None]


class StoreEvent(Struct, gc=False, eq=False):
    """A change: `version` superseded `previous` (None: absent). After a deletion, `version.value` is None."""

    version: KeyVersion
    previous: KeyVersion | None

    @property
    def key(self) -> str:
        return self.version.key

    @property
    def revision(self) -> int:
        return self.version.revision

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        """ADDED, MODIFIED or DELETED."""
        if self.version.value is None:
            return "DELETED"
        return "ADDED" if self.previous is None else "MODIFIED"


class Subscription:
    """Subscription of one consumer to a prefix (empty or ending in a slash) or to a single key."""

    __slots__ = ("_active", "_deliver", "_fanout", "_lost", "after", "prefix")

    def __init__(self, fanout: "Fanout", prefix: str, after: int, deliver: Deliver, lost: Lost) -> None:
        self._active = True
        self._fanout = fanout
        self.prefix = prefix
        self.after = after
        self._deliver = deliver
        self._lost = lost

    def deliver(self, events: Sequence[StoreEvent]) -> None:
        """Pass events to the consumer. If it raises an exception, only its subscription ends."""
        if not self._active:  # an earlier subscriber of the same batch has ended this subscription
            return
        if events[0].revision <= self.after:  # the requested revision was newer than the cache
            events = [event for event in events if event.revision > self.after]
            if not events:
                return
        try:
            self._deliver(events)
        except Exception as error:
            logger.exception("a watcher of %r failed and was dropped", self.prefix)
            self.drop(StoreError(f"the watcher failed: {error}"))

    def drop(self, reason: StoreError) -> None:
        """End the subscription from the store's side and report the reason to the consumer.

        Nothing happens if it has ended already.
        """
        if self._active:
            self.close()
            self._lost(reason)

    def close(self) -> None:
        """End the subscription from the consumer's side; no more events are delivered."""
        if self._active:
            self._active = False
            self._fanout.discard(self)


class Fanout:
    """All subscriptions, indexed by prefix."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, list[Subscription]] = {}
        self._by_directory: dict[str, list[Subscription]] = {}  # cache: directory → subscriptions of all its prefixes

    def add(self, subscription: Subscription) -> None:
        self._by_directory.clear()
        self._by_prefix.setdefault(subscription.prefix, []).append(subscription)

    def discard(self, subscription: Subscription) -> None:
        self._by_directory.clear()
        subscriptions = self._by_prefix[subscription.prefix]
        subscriptions.remove(subscription)
        if not subscriptions:
            del self._by_prefix[subscription.prefix]

    def publish(self, events: Sequence[StoreEvent]) -> None:
        """Deliver events to all interested subscriptions; each gets its events in one batch."""
        if not self._by_prefix or not events:
            return
        if len(events) == 1:
            for subscription in self._interested(events[0]):
                subscription.deliver(events)
            return
        shares: dict[Subscription, list[StoreEvent]] = {}
        for event in events:
            for subscription in self._interested(event):
                shares.setdefault(subscription, []).append(event)
        for subscription, share in shares.items():
            subscription.deliver(share)

    def _interested(self, event: StoreEvent) -> list[Subscription]:
        key = event.version.key
        directory = key[: key.rfind("/") + 1]
        found = self._by_directory.get(directory)
        if found is None:
            found = self._by_directory[directory] = self._watching(directory)
        if subscriptions := self._by_prefix.get(key):
            return found + subscriptions
        return found

    def _watching(self, directory: str) -> list[Subscription]:
        """Return the subscriptions to a directory or one of its parents, for example "", "pods/" and "pods/default/"."""
        ends = [0, *(at + 1 for at, letter in enumerate(directory) if letter == "/")]
        return [subscription for end in ends for subscription in self._by_prefix.get(directory[:end], ())]

    def drop_all(self, reason: StoreError) -> None:
        """End all subscriptions with a reason."""
        for subscriptions in list(self._by_prefix.values()):
            for subscription in list(subscriptions):
                subscription.drop(reason)


class Watch:
    """Asynchronous iterator over batches of events, for one consumer."""

    def __init__(self, reached: Callable[[], int], limit: int) -> None:
        self._reached = reached
        self._limit = limit
        self._room = limit
        self._events: list[StoreEvent] = []
        self._error: StoreError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._subscription: Subscription | None = None
        self.is_ending = False

    def begin(self, subscription: Subscription) -> None:
        """Attach the subscription; called once. Events that are already queued do not count towards the limit."""
        self._subscription = subscription
        self._room = self._limit + len(self._events)

    @property
    def revision(self) -> int:
        """The revision up to which all events have been handed out; can be used for a bookmark."""
        if self._events:
            return self._events[0].revision - 1
        asked = self._subscription.after if self._subscription is not None else 0
        return max(asked, self._reached())

    async def next(self, timeout: float | None = None) -> Sequence[StoreEvent]:
        """Return the events since the last call, at least one; an empty sequence after `timeout` seconds without
        events.

        With None, waits without limit. Also returns an empty sequence when `is_ending` is set and nothing is queued.
        Raises Lagged, RevisionExpired or Closed when the watch has ended, even if events are queued.
        """
        if not self._events and self._error is None and not self.is_ending:
            await self._wait(timeout)
        if self._error is not None:
            raise self._error
        events, self._events = self._events, []
        self._room = self._limit
        return events

    async def __aiter__(self) -> AsyncIterator[Sequence[StoreEvent]]:
        while True:
            if events := await self.next():
                yield events

    def close(self) -> None:
        """End the watch from the consumer's side."""
        if self._subscription is not None:
            self._subscription.close()
        self.lose(Closed("the watch"))

    def take(self, events: Sequence[StoreEvent]) -> None:
        """Queue events; called by the subscription. Drops the subscription if the consumer is too far behind."""
        if len(self._events) + len(events) > self._room and self._subscription is not None:
            self._subscription.drop(Lagged(self._limit))
            return
        self._events += events
        self._wake()

    def end(self) -> None:
        """Let the consumer take the queued events and then stop; sets `is_ending`."""
        self.is_ending = True
        self._wake()

    def lose(self, reason: StoreError) -> None:
        """End the watch with an error and discard the queued events."""
        self._error = reason
        self._events = []
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout, self._wake) if timeout is not None else None
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
