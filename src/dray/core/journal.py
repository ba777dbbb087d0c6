"""Inverses of changes, recorded while something is tried, so that it can be taken back without copying the cluster.

Each inverse sets one thing to what it was before, so a thing that was changed several times is restored exactly. Left
out: what is tried (`trial`, `model`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Inverse = Callable[[], object]
RecordInverse = Callable[[Inverse], None]


class RecordsChanges(Protocol):
    """A part of the state that passes the inverse of each of its changes to `record`, unless that is None."""

    record: RecordInverse | None


class StateJournal:
    """The inverses of the changes of some parts of the state. It records only while `open`."""

    def __init__(self, *parts: RecordsChanges) -> None:
        self._parts = parts
        self._inverses: list[Inverse] = []
        self._depth = 0

    @property
    def is_open(self) -> bool:
        return self._depth > 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Record changes, and take them back at the end. May be nested."""
        mark = self.mark()
        self._depth += 1
        self._listen(self.record)
        try:
            yield
        finally:
            self.rewind(mark)
            self._depth -= 1
            self._listen(self.record if self._depth else None)

    def record(self, inverse: Inverse) -> None:
        self._inverses.append(inverse)

    def mark(self) -> int:
        """The state as it is now, to which `rewind` returns."""
        return len(self._inverses)

    def rewind(self, mark: int) -> None:
        """Take back every change since a mark."""
        self._listen(None)
        while len(self._inverses) > mark:
            self._inverses.pop()()
        self._listen(self.record)

    def set(self, kept: MutableMapping[K, V], key: K, value: V) -> None:
        """Set an entry of a mapping that belongs to what is tried."""
        before = (kept[key],) if key in kept else ()
        self.record(partial(_restore, kept, key, *before))
        kept[key] = value

    def discard(self, kept: MutableMapping[K, V], key: K) -> None:
        """Remove an entry of such a mapping."""
        if key in kept:
            self.record(partial(_restore, kept, key, kept.pop(key)))

    def _listen(self, record: RecordInverse | None) -> None:
        for part in self._parts:
            part.record = record


def _restore(kept: MutableMapping[K, V], key: K, *value: V) -> None:
    """Set an entry, or remove it where it had no value."""
    if value:
        kept[key] = value[0]
    else:
        kept.pop(key, None)
