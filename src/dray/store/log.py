"""The log: the interface that every storage backend implements.

A backend is a revisioned map of keys to bytes that reports changes. It knows nothing about objects, resources,
selectors or watchers; these are handled by the cache above it. Every backend guarantees:

- Revisions grow with each commit that changes something, and no two commits share a revision. A commit that
  changes nothing (it deletes keys that do not exist) returns the current revision.
- An acknowledged commit is as durable as the backend can make it, and every later `head` returns at least its
  revision.
- Keys are compared as UTF-8. A key is not empty and does not start with a NUL character.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

Decode = Callable[[str, bytes, int], object]
"""(key, value, revision) → decoded object, shared by all readers."""

FORGOTTEN_AT_ONCE = 500
"""Number of changes dropped from the history in one turn of the event loop; freeing more at once would block it."""

REPLAYED = 1000
"""Number of commits of history that a cache loads at startup, so that watchers survive a restart of the server."""


class Op(Struct, frozen=True):
    """One write operation of a commit. `value` None deletes the key.

    `expected` is the revision of the key's last change; 0 means that the key must not exist, None means any state.
    With `ttl`, the key is deleted that many seconds after the commit or a little later; a later write of the key
    replaces or removes this deadline. Readers in this process get `make(key, value, revision)` instead of the cache's
    `decode`; it is called at most once. The writer uses `make` to avoid decoding what it has just encoded.
    """

    key: str
    value: bytes | None
    expected: int | None = None
    ttl: float | None = None
    make: Decode | None = None


class KeyVersion(Struct, gc=False, eq=False):
    """State of a key from `revision` on; the key exists since revision `created`. `value` None means that the key
    was deleted.

    Excluded from garbage collection, because hundreds of thousands exist and they form no cycles.
    """

    key: str
    value: bytes | None
    revision: int
    created: int
    make: Decode | None = None
    _object: object = None

    @property
    def object(self) -> Any:
        """The decoded value: created on first use, then shared by all readers. None for a deletion."""
        if self.make is None or self.value is None:
            return self._object
        made = self.make(self.key, self.value, self.revision)
        if self._object is not _NOT_KEPT:
            self._object, self.make = made, None
        return made

    def undecode(self, make: Decode) -> None:
        """Drop the decoded value, which takes more memory. From now on each read decodes with `make` again."""
        if self.value is not None:
            self._object, self.make = _NOT_KEPT, make


_NOT_KEPT = object()


class RangePage(Struct):
    """Versions in key order at `revision`.

    `remaining` is the number of keys that follow; from a log it is approximate, and 0 only if no key follows.
    """

    versions: list[KeyVersion]
    revision: int
    remaining: int = 0


class Batch(Struct):
    """All changes since the previous batch up to and including `revision`: whole revisions in order.

    Without versions, the batch reports progress: no key has changed up to `revision`.
    """

    revision: int
    versions: Sequence[KeyVersion] = ()


class Log(Protocol):
    """Interface of a storage backend. All methods must be called from one event loop."""

    replay: int
    """Number of revisions before the newest one at which a cache starts, so that it has the last `REPLAYED` commits."""

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        """Do all operations at one revision. Returns the revision.

        Raises RevisionConflict and does nothing if an expectation fails, and ValueError for no operations, an invalid
        key or a key that occurs twice. Raises Unavailable if the store cannot be written; then the commit may or may
        not have been done. `awaited` says that a client in another process waits for this commit; of the commits that
        are acknowledged together, these are acknowledged first.
        """

    async def load(self, revision: int | None = None, after: str = "", limit: int | None = None) -> RangePage:
        """Return up to `limit` keys (None: all) greater than `after` as of `revision` (None: the newest).

        Raises Compacted if the log no longer has the revision.
        """

    def tail(self, after: int) -> AsyncIterator[Batch]:
        """Yield every change after a revision, without end. Reconnects after lost connections.

        Raises Compacted if the log no longer has the changes after the revision.
        """

    async def head(self) -> int:
        """Return a revision at least as new as any commit acknowledged before; every tail reaches it soon."""

    async def probe(self) -> None:
        """Check whether a commit is possible at the moment, without changing anything. Raises Unavailable if not."""

    async def compact(self, revision: int) -> None:
        """Drop states that were superseded at or before a revision, if this was not done already.

        Older revisions can no longer be read.
        """

    async def close(self) -> None:
        """Release all resources; tails end."""


@runtime_checkable
class LocalLog(Log, Protocol):
    """A log that only this process writes, so that readers get changes during the commit."""

    def attach(self, after: int, sink: Callable[[Batch], None]) -> Callable[[], None]:
        """Call `sink` with the changes after a revision: immediately with existing ones, then before each commit
        returns.

        Returns a function that detaches the sink. Raises Compacted if the log no longer has the changes after the
        revision.
        """
