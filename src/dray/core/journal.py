"""Inverses of changes, recorded during a trial, so that the trial can be undone without copying the cluster.

Each inverse restores one entry to its previous value, so an entry that changed several times is restored exactly.
Left out: what is tried (`trial`, `model`).
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
    """Part of the state that passes the inverse of each change to `record`, unless `record` is None."""

    record: RecordInverse | None


class StateJournal:
    """Inverses of changes to some parts of the state. Records only while `open`."""

    def __init__(self, *parts: RecordsChanges) -> None:
        self._parts = parts
        self._inverses: list[Inverse] = []
        self._depth = 0

    @property
    def is_open(self) -> bool:
        return self._depth > 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Context manager: record changes within the block and undo them when the block ends. May be nested."""
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
        """Return a mark of the current state, for `rewind`: the number of recorded changes."""
        return len(self._inverses)

    def rewind(self, mark: int) -> None:
        """Undo every change since a mark."""
        self._listen(None)
        while len(self._inverses) > mark:
            self._inverses.pop()()
        self._listen(self.record)

    def set(self, kept: MutableMapping[K, V], key: K, value: V) -> None:
        """Set an entry of a mapping and record the inverse."""
        before = (kept[key],) if key in kept else ()
        self.record(partial(_restore, kept, key, *before))
        kept[key] = value

    def discard(self, kept: MutableMapping[K, V], key: K) -> None:
        """Remove an entry of a mapping, if present, and record the inverse."""
        if key in kept:
            self.record(partial(_restore, kept, key, kept.pop(key)))

    def _listen(self, record: RecordInverse | None) -> None:
        for part in self._parts:
            part.record = record


def _restore(kept: MutableMapping[K, V], key: K, *value: V) -> None:
    """Set an entry to the given value, or remove the entry if no value is given."""
    if value:
        kept[key] = value[0]
    else:
        kept.pop(key, None)
