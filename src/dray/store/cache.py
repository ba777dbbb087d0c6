"""Cache: the whole state in memory above any log, serving GET, LIST and WATCH.

Everything except waiting is synchronous, and belongs to one event loop. Between two awaits a caller sees one
revision, so a list followed by a watch from the list's revision has no gap. Values are opaque; `decode` converts
a value once, on first use, to an object that all readers share. Selectors, the semantics of resourceVersion and
other API rules are not part of the cache.
"""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import islice

from dray.shrinking import shrink
from dray.store.errors import Closed, Compacted, RevisionConflict, RevisionExpired, StoreError, Unavailable
from dray.store.history import Retention, VersionHistory, of_prefix
from dray.store.keys import SortedKeys
from dray.store.log import FORGOTTEN_AT_ONCE, Batch, Decode, KeyVersion, LocalLog, Log, Op, RangePage
from dray.store.measures import StoreMeasures, count
from dray.store.watch import Deliver, Fanout, Lost, StoreEvent, Subscription, Watch

logger = logging.getLogger(__name__)

_LOAD_PAGE = 10_000
_RETRY_SECONDS = 1.0
_UPKEEP_SECONDS = 5.0
_REMOTE_UPKEEP_SECONDS = 60.0  # longer, because etcd visits all keys in a compaction
_CATCH_UP_SECONDS = 5.0  # maximum time a commit waits until the cache has it; the write is done in any case


def undecoded(key: str, value: bytes, revision: int) -> object:
    """Return the bytes unchanged; default of `decode`."""
    return value


class Cache:
    """Cache of the whole state. Created by `Cache.open`; `close` does not close the log."""

    def __init__(
        self,
        log: Log,
        decode: Decode,
        *,
        retention: Retention | None,
        clock: Callable[[], float],
        watch_limit: int,
        cold: tuple[str, ...],
    ) -> None:
        self.revision = 0
        self.measures = StoreMeasures()
        self._commits = self.measures.durations["commit"]
        self.is_local = isinstance(log, LocalLog)
        """Whether only this process writes the log, so that the cache is never behind the log."""
        self._log = log
        self._decode = decode
        self._watch_limit = watch_limit
        self._latest: dict[str, KeyVersion] = {}
        self._collections: dict[str, SortedKeys] = {}
        self._history = VersionHistory(retention or Retention(), clock, cold)
        self._fanout = Fanout()
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waited = 0
        self._compacted = 0
        self._detach: Callable[[], None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    @classmethod
    async def open(
        cls,
        log: Log,
        decode: Decode = undecoded,
        *,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.monotonic,
        watch_limit: int = 10_000,
        cold: tuple[str, ...] = (),
    ) -> "Cache":
        """Load the whole state and follow the log from there. Returns the cache.

        `decode` converts values for readers. `clock` returns seconds, and `watch_limit` is the number of events that
        may wait in one watch. `cold` are prefixes of keys that are rarely read; their decoded values are dropped.
        """
        cache = cls(log, decode, retention=retention, clock=clock, watch_limit=watch_limit, cold=cold)
        await cache._load(max(await log.head() - log.replay, 0))
        if cache.is_local:
            assert isinstance(log, LocalLog)
            cache._detach = log.attach(cache.revision, cache._apply)
            cache._tasks.append(asyncio.create_task(cache._keep_up(_UPKEEP_SECONDS)))
        else:
            cache._tasks.append(asyncio.create_task(cache._follow(log)))
            cache._tasks.append(asyncio.create_task(cache._keep_up(_REMOTE_UPKEEP_SECONDS)))
            await cache.wait_for(await log.head())
        return cache

    async def close(self) -> None:
        """Stop following the log, and end all subscriptions and waiting calls with Closed."""
        self._closed = True
        if self._detach is not None:
            self._detach()
            self._detach = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fanout.drop_all(Closed("the cache"))
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(Closed("the cache"))

    # Writing

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        """Commit the operations as `Log.commit` does. Returns the revision of the commit.

        When the call returns, the cache has the change and subscribers have received it, unless catching up takes too
        long, which is logged. Raises RevisionConflict; then the cache already has the conflicting change, so reading
        and retrying can succeed.
        """
        begun = time.perf_counter()
        try:
            revision = await self._log.commit(ops, awaited=awaited)
        except StoreError as error:
            self.measures.took("commit", time.perf_counter() - begun, error)
            if isinstance(error, RevisionConflict):
                with suppress(Unavailable):
                    await self.read()
            raise
        count(self._commits, time.perf_counter() - begun)
        if self.revision < revision:
            try:
                await self._catch_up(revision, _CATCH_UP_SECONDS)
            except TimeoutError:
                logger.warning("the cache is behind: committed revision %d, at %d", revision, self.revision)
        return revision

    # Reading

    @property
    def oldest(self) -> int:
        """The oldest revision that can be listed or watched from."""
        return self._history.floor

    def get(self, key: str) -> KeyVersion | None:
        """Return the current version of a key, or None if it does not exist (also after its deletion)."""
        return self._latest.get(key)

    def list(self, prefix: str, *, revision: int | None = None, after: str = "", limit: int | None = None) -> RangePage:
        """Return the keys under a prefix that are greater than `after`, in order, at most `limit`. The prefix
        must end in a slash or be empty.

        With `revision`, returns the state at that revision. Raises RevisionExpired if that revision is too old,
        and ValueError if it does not exist yet.
        """
        if revision is None or revision == self.revision:
            return self._list_latest(prefix, after, limit)
        if revision > self.revision:
            raise ValueError(f"revision {revision} is not there yet; the newest is {self.revision}")
        return self._list_at(revision, prefix, after, limit)

    def count(self, prefix: str) -> int:
        """Return the number of keys under a prefix, which must end in a slash or be empty."""
        keys = self._range(prefix, "")
        return len(keys) - self._removed(prefix, "")

    async def read(self, *, timeout: float = 10.0) -> int:
        """Wait until the cache has everything that was acknowledged anywhere before the call. Returns the cache's
        revision.

        Raises Unavailable after `timeout` seconds.
        """
        with self.measures.of("head"):
            head = await self._log.head()
        try:
            await self._catch_up(head, timeout)
        except TimeoutError:
            raise Unavailable(f"the cache is behind: revision {head} is wanted, {self.revision} is here") from None
        return self.revision

    async def probe(self) -> None:
        """Check whether the log can currently be written. Raises Unavailable if not."""
        with self.measures.of("probe"):
            await self._log.probe()

    async def _catch_up(self, revision: int, timeout: float) -> None:
        """Like `wait_for`, but also records the waiting time as the cache's lag."""
        begun = time.perf_counter()
        try:
            await self.wait_for(revision, timeout)
        finally:
            count(self.measures.lag, time.perf_counter() - begun)

    async def wait_for(self, revision: int, timeout: float | None = None) -> None:
        """Wait until the cache has reached the revision.

        Raises TimeoutError after `timeout` seconds (None: no limit), and Closed if the cache is closed before.
        """
        if self._closed:
            raise Closed("the cache")
        if self.revision >= revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waited += 1  # tie-breaker for equal revisions, because futures cannot be compared
        heappush(self._waiters, (revision, self._waited, waiter))
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            # Remove the waiter: the revision may never come, and a client may wait for many revisions.
            self._waiters = [entry for entry in self._waiters if not entry[2].done()]
            heapify(self._waiters)
            raise

    def watch(self, prefix: str, after: int) -> Watch:
        """Return a watch that yields every event after the revision, exactly once and in order.

        `prefix` is empty, ends in a slash, or is a single key. Raises RevisionExpired if the history does not reach
        back to the revision, and Closed if the cache is closed.
        """
        watch = Watch(lambda: self.revision, self._watch_limit)
        watch.begin(self.subscribe(prefix, after, watch.take, watch.lose))
        return watch

    def subscribe(self, prefix: str, after: int, deliver: Deliver, lost: Lost) -> Subscription:
        """Subscribe to every event after the revision: `deliver` gets batches during the commit, `lost` the reason if
        the subscription ends.

        Events that already happened are delivered before this call returns. `deliver` must not block; if it raises an
        exception, the subscription ends. Raises RevisionExpired if the history does not reach back to the revision,
        and Closed if the cache is closed.
        """
        if self._closed:
            raise Closed("the cache")
        missed = of_prefix(self._history.after(after), prefix)
        subscription = Subscription(self._fanout, prefix, after, deliver, lost)
        self._fanout.add(subscription)
        if missed:
            subscription.deliver(missed)
        return subscription

    # Following the log

    async def _load(self, start: int) -> None:
        """Load the state at revision `start`, or at the oldest revision that the log still has."""
        revision: int | None = start
        while True:
            try:
                await self._load_at(revision)
                return
            except Compacted as error:
                revision = error.oldest

    async def _load_at(self, revision: int | None) -> None:
        latest: dict[str, KeyVersion] = {}
        after = ""
        while True:
            page = await self._log.load(revision, after, _LOAD_PAGE)
            revision = page.revision
            for version in page.versions:
                if version.make is None and version.value is not None:
                    version.make = self._decode
                latest[version.key] = version
            if not page.remaining:
                break
            after = page.versions[-1].key
        self._restart(latest, revision)

    def _restart(self, latest: dict[str, KeyVersion], revision: int) -> None:
        self._latest = latest
        self._collections = {}
        for key in latest:
            self._collection(key).add(key)
        self._history.restart(revision)
        self._compacted = revision  # another server may still need older history, so do not compact it
        self._reach(revision)

    async def _follow(self, log: Log) -> None:
        while True:
            try:
                async for batch in log.tail(self.revision):
                    self._apply(batch)
                return
            except Compacted as error:
                await self._start_over(error)

    async def _start_over(self, error: Compacted) -> None:
        """Reload everything and end all subscriptions, because the log has compacted needed revisions."""
        while True:
            try:
                await self._load(error.oldest)
                break
            except Unavailable as problem:
                logger.warning("cannot load now: %s", problem)
                await asyncio.sleep(_RETRY_SECONDS)
        self._fanout.drop_all(RevisionExpired(error.revision, self.oldest))

    def _apply(self, batch: Batch) -> None:
        events = []
        latest = self._latest
        for version in batch.versions:
            key = version.key
            previous = latest.get(key)
            if version.value is None:
                if previous is None:
                    continue
                del latest[key]
                self._collection(key).remove(key)
            else:
                if version.make is None:
                    version.make = self._decode
                latest[key] = version
                if previous is None:
                    self._collection(key).add(key)
            events.append(StoreEvent(version, previous))
        self._history.extend(events, self._decode)
        self._reach(batch.revision)
        self._fanout.publish(events)

    def _reach(self, revision: int) -> None:
        self.revision = revision
        while self._waiters and self._waiters[0][0] <= revision:
            waiter = heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def upkeep(self) -> None:
        """Drop events that are too old, here and in the log. Called regularly by a task, and by tests."""
        due = self._history.mark(self.revision, self._decode)
        is_forgotten = False
        while not is_forgotten:
            is_forgotten = self._history.forget(due, FORGOTTEN_AT_ONCE)
            await asyncio.sleep(0)
        for keys in self._collections.values():
            keys.forget_removed()
        shrink(self._latest)
        oldest = self._history.floor
        if oldest > self._compacted:
            with self.measures.of("compact"):
                await self._log.compact(oldest)
            self._compacted = oldest

    async def _keep_up(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.upkeep()
            except Unavailable as error:
                logger.warning("cannot compact now: %s", error)
            except StoreError:
                logger.exception("cannot compact")

    # Ranges of keys

    def _collection(self, key: str) -> SortedKeys:
        name = key[: key.find("/") + 1]
        keys = self._collections.get(name)
        if keys is None:
            keys = self._collections[name] = SortedKeys()
        return keys

    def _range(self, prefix: str, after: str) -> Sequence[str]:
        if not prefix:
            return sorted(key for keys in self._collections.values() for key in keys.range("", after))
        if not prefix.endswith("/"):
            raise ValueError(f"a prefix must be empty or end with a slash, got {prefix!r}")
        keys = self._collections.get(prefix[: prefix.index("/") + 1])
        return keys.range(prefix, after) if keys is not None else []

    def _removed(self, prefix: str, after: str) -> int:
        """Return the number of removed keys in the range: those under the prefix that are greater than `after`."""
        if not prefix:
            return sum(keys.removed("", after) for keys in self._collections.values())
        keys = self._collections.get(prefix[: prefix.find("/") + 1])
        return keys.removed(prefix, after) if keys is not None else 0

    def _list_latest(self, prefix: str, after: str, limit: int | None) -> RangePage:
        keys = self._range(prefix, after)
        get = self._latest.get
        if limit is None:
            return RangePage([version for version in map(get, keys) if version is not None], self.revision)
        versions = list(islice((version for version in map(get, keys) if version is not None), limit))
        remaining = self._following(versions[-1].key, prefix, keys, {}) if versions and limit == len(versions) else 0
        return RangePage(versions, self.revision, remaining)

    def _list_at(self, revision: int, prefix: str, after: str, limit: int | None) -> RangePage:
        before = self._history.changed_since(revision, prefix)
        now = then = self._range(prefix, after)
        if gone := [key for key, version in before.items() if version and key not in self._latest and key > after]:
            then = sorted({*now, *gone})
        get = self._latest.get
        states = (before[key] if key in before else get(key) for key in then)
        versions = list(islice((version for version in states if version is not None), limit))
        remaining = self._following(versions[-1].key, prefix, now, before) if versions and limit == len(versions) else 0
        return RangePage(versions, revision, remaining)

    def _following(self, last: str, prefix: str, keys: Sequence[str], before: dict[str, KeyVersion | None]) -> int:
        """Return how many keys follow the last key of a page.

        `keys` are the current keys of the range; `before` has the previous states of keys that changed since the
        listed revision.
        """
        alive = len(keys) - bisect_right(keys, last) - self._removed(prefix, last)
        changed = ((key, old) for key, old in before.items() if key > last)
        return alive + sum((old is not None) - (key in self._latest) for key, old in changed)
