"""The log: all that a backend has to be.

A backend is a revisioned map of keys to bytes that tells what changed. It knows nothing of objects, resources, selectors
or watchers; the cache above it does. Contracts that hold for every backend:

- Revisions grow with each commit that changes something, and no two commits share one; a commit that changes nothing (it
  deletes keys that do not exist) returns the current revision.
- An acknowledged commit is as durable as the backend can make it, and every later `head` is at least its revision.
- Keys are compared as UTF-8. A key is not empty and does not start with a NUL character.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

Decode = Callable[[str, bytes, int], object]
"""(key, value, revision) → the object that readers share."""

FORGOTTEN_AT_ONCE = 500
"""Changes of history that are forgotten in one turn of the event loop: their values are freed there."""

REPLAYED = 1000
"""Commits of history that a cache asks for when it starts, so that watchers survive the restart of a server."""


class Op(Struct, frozen=True):
    """One write of a commit. `value` None deletes.

    `expected` is the revision of the key's last change: 0 means that the key must not exist, None that it does not
    matter. `ttl` seconds after the commit, or a little later, the key is deleted, unless it was written again (without
    `ttl`: for good). `make` spares the decoding of what the writer has just encoded: readers get
    `make(key, value, revision)` instead of the cache's own `decode`, called at most once, where the backend is local.
    """

    key: str
    value: bytes | None
    expected: int | None = None
    ttl: float | None = None
    make: Decode | None = None


class KeyVersion(Struct, gc=False, eq=False):
    """One state of one key: since `revision`, in existence since revision `created`. `value` None: it was deleted.

    Outside the garbage collector's view, since there are hundreds of thousands and they form no cycles.
    """

    key: str
    value: bytes | None
    revision: int
    created: int
    make: Decode | None = None
    _object: object = None

    @property
    def object(self) -> Any:
        """The decoded value: made at the first use, then shared by all readers. None for a deletion."""
        if self.make is None or self.value is None:
            return self._object
        made = self.make(self.key, self.value, self.revision)
        if self._object is not _NOT_KEPT:
            self._object, self.make = made, None
        return made

    def undecode(self, make: Decode) -> None:
        """Let go of the decoded value, which takes several times the room; each reader that asks then decodes its own."""
        if self.value is not None:
            self._object, self.make = _NOT_KEPT, make


_NOT_KEPT = object()


class RangePage(Struct):
    """Versions in key order as of `revision`. `remaining`: how many follow; of a log: about, and 0 only if none does."""

    versions: list[KeyVersion]
    revision: int
    remaining: int = 0


class Batch(Struct):
    """Everything that changed since the previous batch, up to and including `revision`: whole revisions in order.

    Without versions it is progress: nothing of ours has changed up to `revision`.
    """

    revision: int
    versions: Sequence[KeyVersion] = ()


class Log(Protocol):
    """What a backend implements. All methods belong to one event loop."""

    replay: int
    """How many revisions before the newest one a cache starts, in order to know the last `REPLAYED` commits."""

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        """Do all ops at one revision and return it, or raise Conflict and do none. A key may occur once.

        `awaited`: a client of another process waits for this commit. Of the commits that are acknowledged together,
        these come first.
        """

    async def load(self, revision: int | None = None, after: str = "", limit: int | None = None) -> RangePage:
        """The keys greater than `after` as of `revision` (None: now). Raises Compacted."""

    def tail(self, after: int) -> AsyncIterator[Batch]:
        """Every change after that revision, for ever. Raises Compacted; survives lost connections by itself."""

    async def head(self) -> int:
        """A revision not older than any commit acknowledged before the call; every tail gets there soon."""

    async def probe(self) -> None:
        """Find out whether a commit could be done now, without one. Raises Unavailable."""

    async def compact(self, revision: int) -> None:
        """Forget states superseded at or before that revision. Older than an earlier call: nothing happens."""

    async def close(self) -> None:
        """Release everything; tails end."""


@runtime_checkable
class LocalLog(Log, Protocol):
    """A log that this process alone writes, so that a reader can be told within the commit."""

    def attach(self, after: int, sink: Callable[[Batch], None]) -> Callable[[], None]:
        """Call `sink` with what changed after that revision, now and then before each commit returns.

        Raises Compacted. The returned function detaches.
        """
