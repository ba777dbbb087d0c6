"""Watches: which events a watcher receives, in which order, and when a watch ends.

A watcher sees the collection through its selectors: an object that starts to match is ADDED, an object that stops
matching is DELETED. Events arrive in batches from the store, without a task per event. The store drops a watcher that
is too slow, which ends its stream; the client resumes from its last revision.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import AsyncGenerator, Generator, Sequence

import msgspec

from dray.api.errors import Expired, forbidden
from dray.api.wire import Wire
from dray.apiserver.outages import unavailable
from dray.apiserver.read.listing import ListSelection, fresh, prefix_of, revision_of, selection
from dray.apiserver.read.storage import last_state
from dray.apiserver.request import Request, RequestOptions
from dray.apiserver.wire.queries import OptionsInvalid
from dray.background.turns import batched, turns
from dray.store import Cache, Closed, KeyVersion, Lagged, StoreError, StoreEvent, Watch
from dray.store.errors import RevisionExpired

_BOOKMARK_SECONDS = 60.0
_SOME = 1000  # objects of the initial state per batch; a slow watcher holds no more in memory
_TURN = 16  # objects matched before other work may run
_SHORTEST_SECONDS = 1800.0  # without a timeout a watch ends after 30 to 60 minutes, as in Kubernetes


class WatchedChange(msgspec.Struct, frozen=True, gc=False):
    """One event for one watcher.

    A BOOKMARK has no version: all changes up to `revision` have been sent. The bookmark after the initial events has
    `initial_end`. For DELETED, `version` is the last state that matched the selectors.
    """

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    version: KeyVersion | None
    revision: int
    initial_end: bool = False

    @property
    def object(self) -> Wire | None:
        """The typed object, or None for a BOOKMARK. A deleted object has the resourceVersion of the deletion."""
        version = self.version
        if version is None:
            return None
        if self.type == "DELETED":
            return last_state(version, self.revision)
        found: Wire = version.object
        return found


class Start(msgspec.Struct, frozen=True):
    """Start of a watch: the current state, or the changes after a revision."""

    after: int
    initial: bool  # send the current state first
    announce: bool  # and a bookmark after it


class Watching:
    """All watches of one server."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._open: set[Watch] = set()

    def changes(self, request: Request) -> AsyncGenerator[list[WatchedChange], None]:
        """Yield the batches of a watch.

        Invalid options raise before the first batch; Expired is raised by the iteration.
        """
        options = request.options
        _check(options)
        chosen = selection(request.resource, options)
        after = revision_of(options.resource_version) if options.resource_version else 0
        initial = options.send_initial_events or (options.send_initial_events is None and not after)
        start = Start(after, initial, bool(options.send_initial_events) and options.allow_bookmarks)
        return self._changes(prefix_of(request.resource, request.namespace), chosen, start, request)

    def end(self) -> None:
        """End all watches, for example when the server stops.

        Each watcher still receives pending events and, if it requested bookmarks, a bookmark from which to resume
        elsewhere.
        """
        for watch in list(self._open):
            watch.end()

    async def _changes(
        self, prefix: str, chosen: ListSelection, start: Start, request: Request
    ) -> AsyncGenerator[list[WatchedChange], None]:
        """Yield the initial state, then changes and bookmarks, until the timeout or the end of the watch.

        Ends without an error if the watch lags too far behind or is closed. Raises Expired if changes since its start
        are no longer available.
        """
        options, user = request.options, request.user.name
        deadline = time.monotonic() + (options.timeout_seconds or random.uniform(1, 2) * _SHORTEST_SECONDS)
        try:
            await _reach(self._cache, start)
            watch, present, after = self._begin(prefix, chosen, start)
        except StoreError as error:
            raise unavailable(error) from error
        self._open.add(watch)
        left = pause = _BOOKMARK_SECONDS if options.allow_bookmarks else math.inf
        due = time.monotonic() + pause
        try:
            for some in batched(present, _SOME):
                if batch := await turns().run(user, _present(some, chosen)):
                    yield batch
            present = some = ()  # a watch lives long and would keep old states in memory
            if start.announce:
                yield [WatchedChange("BOOKMARK", None, after, True)]
            while left > 0 and not watch.is_ending:  # at the timeout, events until then are still sent
                now = time.monotonic()
                left = deadline - now
                events = await watch.next(max(0.0, min(left, due - now)))
                batch = (
                    [_plain(event) for event in events]
                    if chosen.everything
                    else await turns().run(user, _selected(events, chosen))
                )
                is_quiet = not batch and left > 0 and not watch.is_ending
                if is_quiet and options.allow_bookmarks and (not events or now >= due):
                    batch = [WatchedChange("BOOKMARK", None, watch.revision)]
                if batch:
                    yield batch
                    due = time.monotonic() + pause  # events that the selector omits do not delay a bookmark
            if watch.is_ending and options.allow_bookmarks:
                yield [WatchedChange("BOOKMARK", None, watch.revision)]
        except (Lagged, Closed):
            return
        except RevisionExpired as error:
            raise Expired(f"too old resource version: {error.revision} ({error.oldest})") from error
        finally:
            self._open.discard(watch)
            watch.close()

    def _begin(self, prefix: str, chosen: ListSelection, start: Start) -> tuple[Watch, Sequence[KeyVersion], int]:
        """Return the watch, the initial objects and the revision after which the watch begins. Raises Expired.

        There are initial objects only if `start` asks for them; otherwise the revision is that of `start`. Nothing is
        awaited in between, so there is no gap.
        """
        cache, after = self._cache, start.after
        present: Sequence[KeyVersion] = ()
        if start.initial:
            page = cache.list(prefix)
            after, present = page.revision, page.versions
        try:
            return cache.watch(chosen.key(prefix) or prefix, after), present, after
        except RevisionExpired as error:
            raise Expired(f"too old resource version: {after} ({error.oldest})") from error


def _check(options: RequestOptions) -> None:
    """Raise OptionsInvalid for watch options that Kubernetes rejects. The rules differ from those of lists."""
    asked = options.send_initial_events is not None
    if asked and options.resource_version_match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise OptionsInvalid("ListOptions", [forbidden("resourceVersionMatch", text)])
    if not asked and options.resource_version_match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise OptionsInvalid("ListOptions", [forbidden("resourceVersionMatch", text)])
    if options.continue_token:
        raise OptionsInvalid("ListOptions", [forbidden("continue", "continue is forbidden for watch")])


async def _reach(cache: Cache, start: Start) -> None:
    """Wait until this server has the start revision. Raises Expired if the store has never had it.

    Such a client saw a state that is lost (a store in memory, or before a backup was restored). The client must list
    again; otherwise it would miss all events until that revision is reached again.
    """
    if start.initial and start.after:
        await fresh(cache, start.after)
    elif start.initial or start.after > cache.revision:
        revision = await cache.read()
        if start.after > revision:
            raise Expired(f"too large resource version: {start.after}, current: {revision}")


def _present(versions: Sequence[KeyVersion], chosen: ListSelection) -> Generator[None, None, list[WatchedChange]]:
    """Return ADDED events for the objects that the selection matches. A generator that yields between batches."""
    batch: list[WatchedChange] = []
    for some in batched(versions, _TURN):
        batch += [WatchedChange("ADDED", v, v.revision) for v in some if chosen.everything or chosen.matches(v.object)]
        yield
    return batch


def _plain(event: StoreEvent) -> WatchedChange:
    """Return the watcher's event for a store event, without selectors."""
    version = event.version
    if version.value is None:
        return WatchedChange("DELETED", event.previous, version.revision)
    return WatchedChange("ADDED" if event.previous is None else "MODIFIED", version, version.revision)


def _selected(events: Sequence[StoreEvent], chosen: ListSelection) -> Generator[None, None, list[WatchedChange]]:
    """Return the watcher's events for store events, with selectors. A generator that yields between batches.

    An object that begins to match is ADDED; one that stops matching is DELETED. Events of objects that matched
    neither before nor after are left out.
    """
    batch = []
    for position, event in enumerate(events):
        if position % _TURN == _TURN - 1:
            yield
        version, previous = event.version, event.previous
        was = previous is not None and chosen.matches(previous.object)
        now = version.value is not None and chosen.matches(version.object)
        if now:
            batch.append(WatchedChange("MODIFIED" if was else "ADDED", version, version.revision))
        elif was:
            # As in Kubernetes, an object that stops matching is sent in its last matching state.
            batch.append(WatchedChange("DELETED", previous, version.revision))
    return batch
