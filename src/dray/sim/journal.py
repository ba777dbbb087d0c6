"""Undoing: what a trial does to a cluster is taken back when the trial ends, so that it costs what it changes.

Every change leaves its inverse here while a trial runs; outside of one nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable

Undo = Callable[[], object]


class UndoJournal:
    """The inverses of the changes since the last mark."""

    def __init__(self) -> None:
        self._undo: list[Undo] = []
        self._marks: list[int] = []

    def record(self, undo: Undo) -> None:
        if self._marks:
            self._undo.append(undo)

    def mark(self) -> None:
        self._marks.append(len(self._undo))

    def roll_back(self) -> None:
        """Take back everything since the last mark, the last change first."""
        mark = self._marks.pop()
        marks, self._marks = self._marks, []  # what is undone is not recorded
        while len(self._undo) > mark:
            self._undo.pop()()
        self._marks = marks
