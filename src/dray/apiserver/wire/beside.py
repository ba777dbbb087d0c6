"""Work that cannot be cut into slices and takes long, YAML above all: done beside the event loop, by one thread for all.

More threads would not do more, since only one runs at a time, but would take the event loop's turns as often as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREAD = ThreadPoolExecutor(1, "beside")


async def beside(work: Callable[..., T], *arguments: object) -> T:
    """What the work comes to, some time later."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work, *arguments)
