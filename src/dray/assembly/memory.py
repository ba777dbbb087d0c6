"""Return unused memory of the C library to the operating system while a server runs.

A large write needs many times its size for a moment. glibc returns freed memory only from the end of its heap, and a
few small objects allocated in the meantime prevent even that, so resident memory would stay at the peak of the
largest writes. Two measures help. Large blocks get their own pages, which are returned when freed; by default, glibc
stops that for sizes up to the largest freed block. And `malloc_trim` periodically returns all free pages within the
heap.

Memory that Python's allocator keeps for small objects cannot be returned. Other C libraries do not have these
functions.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_PAUSE_SECONDS = 10.0  # takes 0.2 ms if little is free, and about 6 ms per 100 MiB returned
# minimum size of a block with its own pages; connections repeatedly read into blocks of a quarter of that
_LARGE_BYTES = 1 << 20
_END_BYTES = 16 << 20  # free bytes at the end of the heap, above which it shrinks immediately
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # constants of malloc.h


def keep_large_apart() -> None:
    """Make glibc always allocate large blocks on their own pages.

    Does nothing if the C library has no mallopt.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _END_BYTES)


def trimming() -> Callable[[], None] | None:
    """Return the function that returns free memory, or None if the C library has none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)


async def give_back(pause: float = _PAUSE_SECONDS) -> None:
    """Return free memory periodically until cancelled.

    Runs on the event loop: a thread would lock the heap for as long, and every allocation would wait for it.
    """
    trim = trimming()
    while trim is not None:
        await asyncio.sleep(pause)
        trim()
