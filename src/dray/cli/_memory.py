"""Memory that the C library keeps although nobody uses it, given back to the machine while a server runs.

A large write takes many times its size for a moment. What it took is freed, but glibc gives back only what lies at the end
of its heap, and a few small objects that were made meanwhile and stay keep it from that: resident memory would remain as
high as the largest writes ever made it. `malloc_trim` gives back every page in between that is free.

Left out: what Python's own allocator keeps for small objects, which nobody can ask it for; and other C libraries, which
have no such function.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

_PAUSE_SECONDS = 10.0  # it takes 0.2 ms where little is free, and about 6 ms for each 100 MiB that it gives back


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
