"""Watches: what a watcher is told, in which order, and when it ends.

A watcher sees the collection through its selectors: an object that begins to match is ADDED, one that ceases is DELETED.
Batches come as the store delivers them, without a task per event. A watcher that does not keep up is dropped by the
store, which ends its stream; it resumes from the last revision that it has seen.
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
_SOME = 1000  # objects of the present state that are told at once; a watcher that does not read keeps no more
_TURN = 16  # objects that a selector is asked about before others may have a turn
_SHORTEST_SECONDS = 1800.0  # without a timeout of its own a watch ends after 30 to 60 minutes, as in Kubernetes


class WatchedChange(msgspec.Struct, frozen=True, gc=False):
    """One event for one watcher.

    A BOOKMARK has no version: every change up to `revision` has been told; the one that ends the initial events has
    `initial_end` set. For DELETED, `version` is the last state known to the watcher's selector.
    """

    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    version: KeyVersion | None
    revision: int
    initial_end: bool = False

    @property
    def object(self) -> Wire | None:
        """The typed object; a deleted one has the resourceVersion of the deletion."""
        version = self.version
        if version is None:
            return None
        if self.type == "DELETED":
            return last_state(version, self.revision)
        found: Wire = version.object
        return found


class Start(msgspec.Struct, frozen=True):
    """Where a watch begins: with the state of now, or after a revision."""

    after: int
    initial: bool  # tell the present state first
    announce: bool  # and say when it has been told


class Watching:
    """The watches of one server."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._open: set[Watch] = set()

    def changes(self, request: Request) -> AsyncGenerator[list[WatchedChange], None]:
        """The batches of a watch. Wrong options are refused before the first; Expired comes from the iteration."""
        options = request.options
        _check(options)
        chosen = selection(request.resource, options)
        after = revision_of(options.resource_version) if options.resource_version else 0
        initial = options.send_initial_events or (options.send_initial_events is None and not after)
        start = Start(after, initial, bool(options.send_initial_events) and options.allow_bookmarks)
        return self._changes(prefix_of(request.resource, request.namespace), chosen, start, request)

    def end(self) -> None:
        """End all watches, as when the server stops; everything else goes on.

        Each watcher still gets what has happened and, if it takes bookmarks, one that tells where to go on elsewhere.
        """
        for watch in list(self._open):
            watch.end()

    async def _changes(
        self, prefix: str, chosen: ListSelection, start: Start, request: Request
    ) -> AsyncGenerator[list[WatchedChange], None]:
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
            present = some = ()  # a watch lives long, and would keep states that are long past
            if start.announce:
                yield [WatchedChange("BOOKMARK", None, after, True)]
            while left > 0 and not watch.is_ending:  # when the time is up, what has happened until then is told yet
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
                    due = time.monotonic() + pause  # what the selector leaves out does not put it off
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
        """The watch, what is told first and its revision; nothing is awaited between them, so there is no gap."""
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
    """Refuse combinations that Kubernetes refuses; what it refuses for lists differs."""
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
    """Wait until this server has what the watch begins with; Expired if no server on this store ever had it.

    Such a client has seen a state that is lost, of a store in memory or before a backup was restored: it must list again,
    or it would take no notice of anything until that revision comes again.
    """
    if start.initial and start.after:
        await fresh(cache, start.after)
    elif start.initial or start.after > cache.revision:
        revision = await cache.read()
        if start.after > revision:
            raise Expired(f"too large resource version: {start.after}, current: {revision}")


def _present(versions: Sequence[KeyVersion], chosen: ListSelection) -> Generator[None, None, list[WatchedChange]]:
    batch: list[WatchedChange] = []
    for some in batched(versions, _TURN):
        batch += [WatchedChange("ADDED", v, v.revision) for v in some if chosen.everything or chosen.matches(v.object)]
        yield
    return batch


def _plain(event: StoreEvent) -> WatchedChange:
    version = event.version
    if version.value is None:
        return WatchedChange("DELETED", event.previous, version.revision)
    return WatchedChange("ADDED" if event.previous is None else "MODIFIED", version, version.revision)


def _selected(events: Sequence[StoreEvent], chosen: ListSelection) -> Generator[None, None, list[WatchedChange]]:
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
            # What ceases to match is told in its last matching state, as Kubernetes does.
            batch.append(WatchedChange("DELETED", previous, version.revision))
    return batch
