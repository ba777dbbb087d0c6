"""Sets of completion indexes as a Job's status writes them: `0-2,5,7-9`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> frozenset[int]:
    """The indexes that a text means; parts that make no sense mean none."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def written(indexes: Iterable[int]) -> str:
    """Runs of two are written as `0,1`, longer ones as `0-2`."""
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
