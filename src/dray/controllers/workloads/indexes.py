"""Sets of completion indexes in the form of a Job's status: `0-2,5,7-9`. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Runs:
    """Set of indexes parsed from text, stored as ranges, so its size does not matter. Invalid parts are ignored."""

    def __init__(self, text: str) -> None:
        ends: dict[int, int] = {}  # first index of a run → first index after the run
        for part in text.split(","):
            first, _, last = part.strip().partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                ends[int(first)] = max(ends.get(int(first), 0), int(last or first) + 1)
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start in sorted(ends):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], ends[start])
            elif ends[start] > start:
                self._starts.append(start)
                self._ends.append(ends[start])

    @property
    def count(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self._starts, index) - 1
        return place >= 0 and index < self._ends[place]


def parse(text: str) -> frozenset[int]:
    """Return the indexes in a text that this program has written.

    The form is that of `written`, such as `0,1,4-7`. Invalid parts are ignored; "" gives no indexes.
    """
    runs = Runs(text)
    return frozenset(index for start, end in zip(runs._starts, runs._ends, strict=True) for index in range(start, end))


def written(indexes: Iterable[int]) -> str:
    """Return indexes as text: a run of two as `0,1`, a longer run as `0-2`.

    Indexes are sorted and separated by commas. Returns "" without indexes.
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if last - first < 2:
        return str(first) if first == last else f"{first},{last}"
    return f"{first}-{last}"
