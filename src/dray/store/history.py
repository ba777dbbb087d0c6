"""The cache's memory of recent events, bounded by age, number and size.

It answers two questions: what happened after a revision (a watch that starts or resumes), and what was there at a
revision (the second page of a list). Both walk back from the newest event, which is where almost every question points.
Left out: when to forget, beyond the bounds of number and size; the cache's upkeep asks for the rest.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dray.store.errors import RevisionExpired
from dray.store.log import Decode, KeyVersion
from dray.store.watch import StoreEvent


@dataclass(frozen=True)
class Retention:
    """How much history to keep: what any of the three bounds cuts off is gone."""

    seconds: float = 300.0  # as long as Kubernetes keeps it
    events: int = 100_000
    bytes: int = 64 << 20  # of values that were superseded


# Bytes of values that were just superseded and may be kept decoded, which takes about ten times as much.
_DECODED_BYTES = 1 << 20


class VersionHistory:
    def __init__(self, retention: Retention, clock: Callable[[], float], cold: tuple[str, ...] = ()) -> None:
        """`cold` are prefixes of keys that are seldom read: also their newest values are kept as bytes alone."""
        self.floor = 0  # every event after it is here
        self._retention = retention
        self._clock = clock
        self._cold = cold
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._superseded: list[KeyVersion] = []  # since the last mark, and may be asked for by those who are just told
        self._settled: list[KeyVersion] = []  # between the last mark and the one before
        self._decoded_bytes = 0  # of the values of both

    def restart(self, revision: int) -> None:
        self.floor = revision
        self._events.clear()
        self._marks.clear()
        self._superseded, self._settled = [], []
        self._bytes = self._decoded_bytes = 0

    def extend(self, events: Sequence[StoreEvent], decode: Decode) -> None:
        self._events += events
        if self._decoded_bytes > _DECODED_BYTES:
            self._let_go(self._settled + self._superseded, decode)
            self._superseded, self._settled = [], []
        for event in events:
            previous = event.previous
            if previous is not None:
                self._bytes += len(previous.value or b"")
                self._soon_as_bytes(previous)
            if self._cold and event.version.key.startswith(self._cold):
                self._soon_as_bytes(event.version)
        if len(self._events) > self._retention.events or self._bytes > self._retention.bytes:
            self._shrink()

    def _soon_as_bytes(self, version: KeyVersion) -> None:
        self._decoded_bytes += len(version.value or b"")
        self._superseded.append(version)

    def mark(self, revision: int, decode: Decode) -> int:
        """Note that this is the current revision; returns up to which revision events have become too old.

        What was superseded before the last mark is kept as bytes: hardly anybody asks for it.
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
        """Keep versions as bytes alone."""
        for version in versions:
            self._decoded_bytes -= len(version.value or b"")
            version.undecode(decode)

    def forget(self, revision: int, most: int | None = None) -> bool:
        """Forget the events up to a revision, or about `most` of them in whole revisions. Returns whether that was all."""
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
        """The events after that revision, in order."""
        self._require(revision)
        found: list[StoreEvent] = []
        for event in reversed(self._events):
            if event.version.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def changed_since(self, revision: int, prefix: str) -> dict[str, KeyVersion | None]:
        """What the keys under the prefix that have changed since were at that revision."""
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
        """Down to both bounds and no further, since many events at once take long; whole revisions."""
        events, size = self._retention.events, self._retention.bytes
        while self._events and (len(self._events) > events or self._bytes > size):
            self.forget(self._events[0].version.revision)


def of_prefix(events: Sequence[StoreEvent], prefix: str) -> list[StoreEvent]:
    """Those of a collection's prefix (empty, or with a slash at the end) or of the single key."""
    if not prefix:
        return list(events)
    if prefix.endswith("/"):
        return [event for event in events if event.version.key.startswith(prefix)]
    return [event for event in events if event.version.key == prefix]
