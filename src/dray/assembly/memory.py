"""Memory that the C library keeps although nobody uses it, given back to the machine while a server runs.

A large write takes many times its size for a moment. What it took is freed, but glibc gives back only what lies at the end
of its heap, and a few small objects that were made meanwhile and stay keep it from that: resident memory would remain as
high as the largest writes ever made it. Two things are done about it. Large blocks get pages of their own, which go back
when they are freed; left to itself, glibc stops doing so for blocks as large as any that was freed before. And now and then
`malloc_trim` gives back every page within the heap that is free.

Left out: what Python's own allocator keeps for small objects, which nobody can ask it for; and other C libraries, which
have no such functions.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_PAUSE_SECONDS = 10.0  # it takes 0.2 ms where little is free, and about 6 ms for each 100 MiB that it gives back
_LARGE_BYTES = 1 << 20  # of a block with pages of its own; connections read into blocks of a quarter, again and again
_END_BYTES = 16 << 20  # that may be free at the end of the heap before it shrinks at once
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_large_apart() -> None:
    """Let large blocks have pages of their own, however large those were that were freed before."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _END_BYTES)


def trimming() -> Callable[[], None] | None:
    """What gives free memory back; nothing where the C library has no such function."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)


async def give_back(pause: float = _PAUSE_SECONDS) -> None:
    """Give free memory back now and then, until it is cancelled.

    On the event loop: a thread would hold the heap's lock as long, and whoever needs memory would wait for that.
    """
    trim = trimming()
    while trim is not None:
        await asyncio.sleep(pause)
        trim()
