"""State of a local log: the latest version of every key, and the changes since the last compaction.

Used by the memory log, which publishes a commit immediately, and by the SQLite log, which stages a commit, writes
it to disk and then publishes it. Checks take staged versions into account. Pure: no clock and no I/O; deadlines
are numbers that the caller compares.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter

from msgspec import Struct

from dray.shrinking import shrink
from dray.store.errors import Compacted, RevisionConflict
from dray.store.log import FORGOTTEN_AT_ONCE, KeyVersion, Op, RangePage

_key = attrgetter("key")


class VersionChange(Struct, gc=False):
    """A new version and the version that it superseded."""

    version: KeyVersion
    previous: KeyVersion | None


class State:
    """Versions of all keys, changes since the last compaction, and deadlines."""

    def __init__(self) -> None:
        self.head = 0  # the last published revision
        self.staged = 0  # the last assigned revision
        self.floor = 0  # all changes after this revision are kept
        self._latest: dict[str, KeyVersion] = {}
        self._ahead: dict[str, KeyVersion] = {}
        self._changes: deque[VersionChange] = deque()
        self._deadlines: list[tuple[float, str, int]] = []
        self._snapshot: tuple[int, list[KeyVersion]] = (-1, [])

    def check(self, ops: Sequence[Op]) -> list[KeyVersion]:
        """Return the versions that the operations create at the next revision, in their order.

        The deletion of a missing key creates none. Raises RevisionConflict if a key has another revision than
        expected, and ValueError for operations that no backend supports.
        """
        if len(ops) != 1 or ops[0].key < "\1":
            check_keys(ops)
        revision = self.staged + 1
        versions = []
        for op in ops:
            key, value, expected = op.key, op.value, op.expected
            current = self._current(key) if self._ahead else self._latest.get(key)
            if expected is not None:
                actual = current.revision if current is not None else 0
                if actual != expected:
                    raise RevisionConflict(key, expected, actual)
            if current is not None:
                key = current.key  # all versions of a key share one string, because history contains many versions
                versions.append(
                    KeyVersion(key, value, revision, current.created, op.make if value is not None else None)
                )
            elif value is not None:
                versions.append(KeyVersion(key, value, revision, revision, op.make))
        return versions

    def _current(self, key: str) -> KeyVersion | None:
        version = self._ahead.get(key) if self._ahead else None
        if version is None:
            return self._latest.get(key)
        return version if version.value is not None else None

    def stage(self, versions: Sequence[KeyVersion]) -> None:
        """Make versions visible to later checks before they are published."""
        self.staged += 1
        for version in versions:
            self._ahead[version.key] = version

    def unstage(self) -> None:
        """Drop all staged versions, because they could not be written."""
        self._ahead.clear()
        self.staged = self.head

    def publish(self, versions: Sequence[KeyVersion]) -> None:
        """Add versions of the next revision or revisions to the state."""
        latest, ahead = self._latest, self._ahead
        for version in versions:
            key = version.key
            self._changes.append(VersionChange(version, latest.get(key)))
            if version.value is None:
                latest.pop(key, None)
            else:
                latest[key] = version
            if ahead and ahead.get(key) is version:
                del ahead[key]
            self.head = version.revision
        if self.staged < self.head:
            self.staged = self.head

    def since(self, after: int) -> list[KeyVersion]:
        """Return the published versions after a revision, in order; empty if there are none.

        Raises Compacted if the revision is older than the last compaction.
        """
        if after < self.floor:
            raise Compacted(after, self.floor)
        found: list[KeyVersion] = []
        for change in reversed(self._changes):
            if change.version.revision <= after:
                break
            found.append(change.version)
        found.reverse()
        return found

    def load(self, revision: int | None, after: str, limit: int | None) -> RangePage:
        """Return a page of the keys greater than `after` at a revision (None: the newest), at most `limit` (None:
        all).

        Raises ValueError if the revision does not exist yet, and Compacted if it can no longer be read.
        """
        if revision is None:
            revision = self.head
        if revision > self.head:
            raise ValueError(f"revision {revision} is not there yet; the newest is {self.head}")
        if self._snapshot[0] != revision:
            self._snapshot = (revision, self._at(revision))
        versions = self._snapshot[1]
        start = bisect_right(versions, after, key=_key) if after else 0
        end = len(versions) if limit is None else min(start + limit, len(versions))
        if end == len(versions):
            self._snapshot = (-1, [])  # the last page was read, so release the snapshot
        return RangePage(versions[start:end], revision, len(versions) - end)

    def _at(self, revision: int) -> list[KeyVersion]:
        if revision < self.floor:
            raise Compacted(revision, self.floor)
        versions: dict[str, KeyVersion | None] = dict(self._latest)
        for change in reversed(self._changes):
            if change.version.revision <= revision:
                break
            versions[change.version.key] = change.previous
        return sorted((v for v in versions.values() if v is not None), key=_key)

    def compact(self, revision: int) -> list[KeyVersion]:
        """Drop the states that were superseded or deleted at or before a revision. Returns the dropped versions."""
        revision = min(revision, self.head)
        forgotten = []
        while self._changes and self._changes[0].version.revision <= revision:
            change = self._changes.popleft()
            if change.previous is not None:
                forgotten.append(change.previous)
            if change.version.value is None:
                forgotten.append(change.version)
        self.floor = max(self.floor, revision)
        shrink(self._latest)
        return forgotten

    def steps(self, revision: int) -> Iterator[int]:
        """Yield intermediate revisions to compact to, ending with `revision` or the newest, so that callers can pause
        in between.

        Yields nothing if that revision is compacted already. The caller must compact to each revision.
        """
        while self.floor < (end := min(revision, self.head)):
            yield min(end, self.floor + FORGOTTEN_AT_ONCE)

    def expire_at(self, key: str, revision: int, deadline: float) -> None:
        """Set the deadline of a key, on the clock of `due`; it applies only while the key's revision is unchanged."""
        heappush(self._deadlines, (deadline, key, revision))

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, even if its key was overwritten since; None if no key has a deadline."""
        return self._deadlines[0][0] if self._deadlines else None

    def due(self, now: float, limit: int) -> list[Op]:
        """Remove up to `limit` deadlines that have passed. Returns operations that delete their unchanged keys."""
        ops: list[Op] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(ops) < limit:
            _, key, revision = heappop(self._deadlines)
            current = self._current(key)
            if current is not None and current.revision == revision:
                ops.append(Op(key, None, revision))
        return ops


def check_keys(ops: Sequence[Op]) -> None:
    """Raise ValueError for operations that no backend supports: none at all, a duplicate key, or an invalid key."""
    keys = {op.key for op in ops}
    if not ops:
        raise ValueError("a commit needs at least one op")
    if len(keys) != len(ops):
        raise ValueError("a commit has the same key twice")
    for key in keys:
        if not key or key[0] == "\0":
            raise ValueError(f"a key must not be empty or start with NUL, got {key!r}")
