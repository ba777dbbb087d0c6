"""Room for recursion: an expression may be nested deeper than Python's default limit of frames allows.

Frames of Python functions live on the heap, so that the limit can be raised without danger. It
is raised for the whole process and left there if somebody else raised it further meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 20_000  # nesting is limited to 250, and no level takes more than a dozen frames


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the recursion limit inside."""
    before = sys.getrecursionlimit()
    if before >= _FRAMES:
        yield
        return
    sys.setrecursionlimit(_FRAMES)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == _FRAMES:
            sys.setrecursionlimit(before)
