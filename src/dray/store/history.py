"""Recent events of the cache, limited by age, number and size.

Answers two questions: which events happened after a revision (for a watch that starts or resumes), and what the
state was at a revision (for further pages of a list). Both search backwards from the newest event, because almost
all requests are about recent revisions. The history enforces the limits of number and size itself; the cache's
upkeep enforces the age.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dray.store.errors import RevisionExpired
from dray.store.log import Decode, KeyVersion
from dray.store.watch import StoreEvent


@dataclass(frozen=True)
class Retention:
    """Limits of the history; events beyond any of the three limits are dropped."""

    seconds: float = 300.0  # as long as Kubernetes keeps it
    events: int = 100_000
    bytes: int = 64 << 20  # total size of superseded values


# Bytes of recently superseded values that stay decoded; a decoded value takes about ten times as much memory.
_DECODED_BYTES = 1 << 20


class VersionHistory:
    """Recent events, from the newest back to the revision `floor`."""

    def __init__(self, retention: Retention, clock: Callable[[], float], cold: tuple[str, ...] = ()) -> None:
        """`cold` are prefixes of keys that are rarely read: even their newest values are kept only as bytes."""
        self.floor = 0  # all events after this revision are kept
        self._retention = retention
        self._clock = clock
        self._cold = cold
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._superseded: list[KeyVersion] = []  # since the last mark; new subscribers may still read them
        self._settled: list[KeyVersion] = []  # between the last mark and the one before
        self._decoded_bytes = 0  # total size of the values in both lists

    def restart(self, revision: int) -> None:
        """Drop all events and start again after a revision."""
        self.floor = revision
        self._events.clear()
        self._marks.clear()
        self._superseded, self._settled = [], []
        self._bytes = self._decoded_bytes = 0

    def extend(self, events: Sequence[StoreEvent], decode: Decode) -> None:
        """Add events, and drop old ones beyond the limits of number and size."""
        cold = self._cold
        self._events += events
        if self._decoded_bytes > _DECODED_BYTES:
            self._let_go(self._settled + self._superseded, decode)
            self._superseded, self._settled = [], []
        for event in events:
            previous = event.previous
            if previous is not None:
                size = len(previous.value or b"")
                self._bytes += size
                self._decoded_bytes += size
                self._superseded.append(previous)
            if cold and event.version.key.startswith(cold):
                self._decoded_bytes += len(event.version.value or b"")
                self._superseded.append(event.version)
        if len(self._events) > self._retention.events or self._bytes > self._retention.bytes:
            self._shrink()

    def mark(self, revision: int, decode: Decode) -> int:
        """Record the current revision with the current time. Returns the revision up to which events are too old.

        Values superseded before the previous mark are kept only as bytes from now on, because they are rarely read.
        """
        self._let_go(self._settled, decode)
        self._superseded, self._settled = [], self._superseded
        now = self._clock()
        self._marks.append((now, revision))
        due = self.floor
        while self._marks and self._marks[0][0] <= now - self._retention.seconds:
            due = max(due, self._marks.popleft()[1])
        return due

    def _let_go(self, versions: Sequence[KeyVersion], decode: Decode) -> None:
        """Drop the decoded values of these versions and keep the bytes."""
        for version in versions:
            self._decoded_bytes -= len(version.value or b"")
            version.undecode(decode)

    def forget(self, revision: int, most: int | None = None) -> bool:
        """Drop events up to a revision, at most about `most` (None: no limit). Returns whether all were dropped.

        All events of one revision are dropped together.
        """
        forgotten = 0
        while self._events and (oldest := self._events[0].version.revision) <= revision:
            if most is not None and forgotten >= most and oldest > self.floor:
                return False
            previous = self._events.popleft().previous
            if previous is not None:
                self._bytes -= len(previous.value or b"")
            self.floor = max(self.floor, oldest)
            forgotten += 1
        self.floor = max(self.floor, revision)
        return True

    def after(self, revision: int) -> list[StoreEvent]:
        """Return the events after a revision, in order; empty if there are none.

        Raises RevisionExpired if the history does not reach back to the revision.
        """
        self._require(revision)
        found: list[StoreEvent] = []
        for event in reversed(self._events):
            if event.version.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def changed_since(self, revision: int, prefix: str) -> dict[str, KeyVersion | None]:
        """Return the keys under a prefix that changed after a revision, with their state at that revision (None:
        absent).

        Raises RevisionExpired.
        """
        self._require(revision)
        before: dict[str, KeyVersion | None] = {}
        for event in reversed(self._events):
            version = event.version
            if version.revision <= revision:
                break
            if version.key.startswith(prefix):
                before[version.key] = event.previous
        return before

    def _require(self, revision: int) -> None:
        if revision < self.floor:
            raise RevisionExpired(revision, self.floor)

    def _shrink(self) -> None:
        """Drop whole revisions until both limits hold, and no more, because dropping many events at once takes long."""
        events, size = self._retention.events, self._retention.bytes
        while self._events and (len(self._events) > events or self._bytes > size):
            self.forget(self._events[0].version.revision)


def of_prefix(events: Sequence[StoreEvent], prefix: str) -> list[StoreEvent]:
    """Return the events of keys under a prefix (empty or ending in a slash), or of a single key."""
    if not prefix:
        return list(events)
    if prefix.endswith("/"):
        return [event for event in events if event.version.key.startswith(prefix)]
    return [event for event in events if event.version.key == prefix]
