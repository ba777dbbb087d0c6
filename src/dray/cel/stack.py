"""Raises Python's recursion limit, because expressions can be nested deeper than the default allows.

Frames of Python functions are on the heap, so a higher limit is safe. The limit applies to the whole process. It
is not reset if other code changed it in the meantime.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 20_000  # nesting is limited to 250, and no level takes more than a dozen frames


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the recursion limit for the duration of the context.

    Changes nothing if the limit is already as high. At the end, restores the limit unless someone else changed it.
    """
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
