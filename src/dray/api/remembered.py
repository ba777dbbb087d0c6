"""Answers about texts that most objects repeat, such as names and amounts, kept for the next time that one is asked about.

Only short texts are kept, and so many: whoever sends a thousand names of a megabyte must not leave them behind. When there
are too many, all are forgotten, which is simpler than finding the oldest, and safe where two threads ask. A known answer
costs half of what `functools.lru_cache` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LONGEST = 512  # characters of a text that is kept


class _Answers(dict[str, T]):
    def __init__(self, answer: Callable[[str], T], most: int) -> None:
        self._answer = answer
        self._most = most

    def __missing__(self, text: str) -> T:
        found = self._answer(text)
        if len(text) <= _LONGEST:
            if len(self) >= self._most:
                self.clear()
            self[text] = found
        return found


def remembered(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Keep the answers of a function of one text, at most so many."""

    def decorate(answer: Callable[[str], T]) -> Callable[[str], T]:
        return _Answers(answer, most).__getitem__

    return decorate
