"""Shares the event loop fairly between the parts of a process: a bounded amount of work in each round of the loop.

Calls of the in-process client often end without waiting for anything, so a controller with thousands of keys would keep the
loop until the last one. Controllers, informers and recorders therefore `take` units of work before they do it. All of them
draw on one allowance, which is renewed with every round of the event loop; whoever gets nothing waits in line. Units are
counted and not measured, so that the same events cause the same steps in every run. A computation over many objects that
cannot be cut is done `beside` the loop, by one thread. Left out: requests from other processes, which never wait here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# One unit is about five microseconds of work, so that a round comes to five milliseconds.
ALLOWANCE = 1000
SCAN = 1  # looking at one object
EVENT = 20  # telling all handlers of an informer of one object
WRITE = 100  # one request to a server in the same process
# Objects that a computation may look at on the loop itself; more are looked at beside it.
ON_THE_LOOP = 500

_THREAD = ThreadPoolExecutor(1, "beside controllers")  # several would only take turns at the interpreter


class LoopShare:
    """The allowance of one event loop."""

    def __init__(self) -> None:
        self._left = ALLOWANCE
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._renews = False

    async def take(self, units: int) -> None:
        """Return when so many units of work may be done; a request above the allowance gets a round of its own."""
        if self._waiting or not self._give(units):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((units, future))
            await future

    def _give(self, units: int) -> bool:
        if units > self._left and self._left < ALLOWANCE:
            return False
        self._left -= units
        self._renew_later()
        return True

    def _renew_later(self) -> None:
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """A new round has begun: let those go on who have waited the longest."""
        self._renews = False
        self._left = ALLOWANCE
        while self._waiting:
            units, future = self._waiting[0]
            if not future.done():  # else whoever waited was cancelled
                if not self._give(units):
                    break
                future.set_result(None)
            self._waiting.popleft()


_SHARES: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopShare] = WeakKeyDictionary()


async def take(units: int) -> None:
    """Wait until the running event loop has room for so many units of work."""
    loop = asyncio.get_running_loop()
    share = _SHARES.get(loop)
    if share is None:
        share = _SHARES[loop] = LoopShare()
    await share.take(units)


async def in_turns(items: Sequence[T], units: int = SCAN) -> AsyncGenerator[Sequence[T], None]:
    """The items in parts, each of which is an allowance of work at the most; an item is so many units."""
    size = max(1, ALLOWANCE // 2 // units)
    for start in range(0, len(items), size):
        part = items[start : start + size]
        await take(units * len(part))
        yield part


async def beside(size: int, compute: Callable[..., T], *arguments: object) -> T:
    """The result of a pure computation that looks at `size` objects: on the loop if they are few, else beside it."""
    if size <= ON_THE_LOOP:
        return compute(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, compute, *arguments)
