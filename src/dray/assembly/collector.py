"""Disable garbage collection in commands that read a whole cluster, whose objects stay and need no visits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Disable garbage collection within the block. With 5,000 nodes it takes 0.7 of 2.6 s."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
