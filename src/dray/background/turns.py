"""Turns for long work on the event loop: one slice at a time, with all other tasks in between.

Work that grows with a client's request (selecting, converting, encoding thousands of objects) is written as a
generator that yields between small steps; `LoopTurns.run` runs it in slices. Work that ends within its first slice
never waits, so ordinary requests only cost one clock reading. If several works are long, users take turns, and so do
the requests of one user: the user with most work waits longest. Work that cannot be split, like most steps of writing
a large object, runs in the worker thread (`thread`), with turns of others between two steps (`pause`).

Calls of the in-process client often complete without waiting, so a controller with thousands of keys would block the
loop until its last key. Controllers, informers and recorders therefore `take` units of work before doing it. All of
them share one allowance, which is renewed with every iteration of the event loop; callers that get none wait in line.
Units are counted, not measured, so the same events cause the same steps in every run. Requests from other processes
never wait for units. Left out: size limits.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_SECONDS = 0.005  # seconds of long work before all other tasks on the event loop run
_LONGEST_BREAK_SECONDS = 0.25

# Units of work: one unit is about five microseconds, so an allowance is about five milliseconds.
ALLOWANCE = 1000
SCAN = 1  # looking at one object
EVENT = 20  # calling all handlers of an informer for one object
WRITE = 100  # one request to a server in the same process


class UsersInTurn:
    """Queue of waiting requests: users take turns, and each user's requests are served in order."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by user, in the order of their turns

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, user: str) -> asyncio.Future[None]:
        """Add a request of a user. Returns a future that is resolved when it is the request's turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(future)
        return future

    def give(self) -> bool:
        """Give the next request its turn. Returns whether there was one; cancelled requests are skipped."""
        while self._waiting:
            user, queue = next(iter(self._waiting.items()))
            del self._waiting[user]
            future = queue.popleft()
            if queue:
                self._waiting[user] = queue  # behind all other users
            if not future.done():  # the request may have been cancelled
                future.set_result(None)
                return True
        return False


class LoopTurns:
    """Scheduler of long work on one event loop."""

    def __init__(self) -> None:
        self._waiting = UsersInTurn()
        self._dispatching = False
        self._spent = 0.0  # seconds of long work in this iteration of the loop
        self._rounds = False  # a callback for the end of this iteration is scheduled
        self._given = 0.0  # time of the last turn given

    async def run(self, user: str, work: Generator[object, None, T]) -> T:
        """Run work in slices in the user's turns. Returns the result of the work."""
        if self._busy:
            await self.wait(user)
        while True:
            began = perf_counter()
            ends = began + SLICE_SECONDS
            try:
                while True:
                    next(work)
                    if perf_counter() > ends:
                        break
            except StopIteration as end:
                self._spend(perf_counter() - began)
                return end.value  # type: ignore[no-any-return]  # return value of the generator
            self._spend(perf_counter() - began)
            await self.wait(user)

    async def pieces(self, user: str, work: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the non-empty pieces that the work produces. An empty piece only marks a place to pause."""
        if self._busy:
            await self.wait(user)
        began = perf_counter()
        for piece in work:
            spent = perf_counter() - began
            if spent > SLICE_SECONDS:
                self._spend(spent)
                await self.wait(user)
                began = perf_counter()
            if piece:
                yield piece
                began = perf_counter()  # time spent by the reader does not count

    @property
    def _busy(self) -> bool:
        """Whether others wait, or the current iteration's slice is used up."""
        return bool(self._waiting) or self._spent > SLICE_SECONDS

    def _spend(self, seconds: float) -> None:
        self._spent += seconds
        if not self._rounds:
            self._rounds = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._rounds = False
        self._spent = 0.0

    async def wait(self, user: str) -> None:
        """Wait for the user's turn, at least until all other ready tasks on the loop have run."""
        future = self._waiting.add(user)
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)
        await future

    def _dispatch(self) -> None:
        """Give the next user a turn, one per iteration of the loop."""
        if self._waiting.give():
            self._given = perf_counter()
        self._dispatching = bool(self._waiting)
        if self._dispatching:
            asyncio.get_running_loop().call_soon(self._give_time)

    def _give_time(self) -> None:
        """Schedule the next turn. After a long turn that could not be split, other tasks get as much time first."""
        taken = perf_counter() - self._given
        loop = asyncio.get_running_loop()
        if taken > 2 * SLICE_SECONDS:
            loop.call_later(min(taken, _LONGEST_BREAK_SECONDS), self._dispatch)
        else:
            loop.call_soon(self._dispatch)


class Steps:
    """Small steps of a stream of unknown length, which together take turns like long work."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._began = 0.0

    async def begin(self) -> None:
        """Start the steps for new data, waiting for a turn if other long work is pending."""
        if turns()._busy:
            await turns().wait(self._user)
        self._began = perf_counter()

    async def step(self) -> None:
        """Wait for the next turn if the current slice is used up. Call between steps."""
        spent = perf_counter() - self._began
        if spent > SLICE_SECONDS:
            turns()._spend(spent)
            await turns().wait(self._user)
            self._began = perf_counter()

    def end(self) -> None:
        """Account for the time spent since the last step."""
        turns()._spend(perf_counter() - self._began)


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in batches of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def pause(user: str) -> None:
    """Wait for the user's next turn, between two steps of long work."""
    await turns().wait(user)


class LoopShare:
    """Allowance of work units on one event loop."""

    def __init__(self) -> None:
        self._left = ALLOWANCE
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._renews = False

    def give_at_once(self, units: int) -> bool:
        """Take units of work unless others wait or the allowance is used up. Returns False if the caller must wait."""
        return not self._waiting and self._give(units)

    async def wait(self, units: int) -> None:
        """Wait until this many units of work may be done. A request above the allowance gets its own iteration."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((units, future))
        await future

    def _give(self, units: int) -> bool:
        if units > self._left and self._left < ALLOWANCE:
            return False
        self._left -= units
        if not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)
        return True

    def _renew(self) -> None:
        """Renew the allowance in a new iteration, and serve waiting requests in order."""
        self._renews = False
        self._left = ALLOWANCE
        while self._waiting:
            units, future = self._waiting[0]
            if not future.done():  # otherwise the waiting task was cancelled
                if not self._give(units):
                    break
                future.set_result(None)
            self._waiting.popleft()


class _Loop:
    """State that belongs to one event loop."""

    def __init__(self) -> None:
        self.turns = LoopTurns()
        self.share = LoopShare()


class _Latest(threading.local):
    """Event loop that a thread has asked about last, with its state: a thread rarely has another one."""

    loop: asyncio.AbstractEventLoop | None = None
    state = _Loop()


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()
_LATEST = _Latest()


def turns() -> LoopTurns:
    """Return the `LoopTurns` of the running event loop, which schedules its long work."""
    return _running().turns


async def take(units: int) -> None:
    """Wait until the running event loop has this many units of work left."""
    share = _running().share
    if not share.give_at_once(units):
        await share.wait(units)


def _running() -> _Loop:
    loop = asyncio.get_running_loop()
    latest = _LATEST
    if latest.loop is loop:
        return latest.state
    found = _LOOPS.get(loop)
    if found is None:
        found = _LOOPS[loop] = _Loop()
    latest.loop, latest.state = loop, found
    return found


async def in_turns(items: Sequence[T], units: int = SCAN) -> AsyncGenerator[Sequence[T], None]:
    """Yield the items in parts, taking `units` of work per item before each part.

    No part is empty, so nothing is yielded without items.
    """
    size = max(1, ALLOWANCE // 2 // units)
    for start in range(0, len(items), size):
        part = items[start : start + size]
        await take(units * len(part))
        yield part
