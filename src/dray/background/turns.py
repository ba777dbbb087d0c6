"""Long work on the event loop takes turns: one slice at a time, and everybody else between two slices.

Work that grows with what a client asks for (selecting, converting, encoding thousands of objects) is written as a
generator that yields between small steps. `LoopTurns.run` runs it in slices. Work that ends within its first slice never
waits, so ordinary requests pay one look at a clock. When several are long, users take turns, and the requests of one user
among themselves: whoever asks for the most waits the longest. What cannot be cut, as most steps of writing a large object,
is done in the worker thread (`thread`), and others have a turn between two steps (`pause`).

Calls of the in-process client often end without waiting for anything, so a controller with thousands of keys would keep the
loop until the last one. Controllers, informers and recorders therefore `take` units of work before they do it. All of them
draw on one allowance, which is renewed with every round of the event loop; whoever gets nothing waits in line. Units are
counted and not measured, so that the same events cause the same steps in every run. Requests from other processes never wait
for units. Left out: limits of size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_SECONDS = 0.005  # of long work, before everybody else on the event loop has a turn
_LONGEST_BREAK_SECONDS = 0.25

# Units of work: one is about five microseconds, so that a round comes to five milliseconds.
ALLOWANCE = 1000
SCAN = 1  # looking at one object
EVENT = 20  # telling all handlers of an informer of one object
WRITE = 100  # one request to a server in the same process


class UsersInTurn:
    """Those who wait for a turn: users one after the other, and the requests of one user among themselves."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by user, in the order of their turns

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, user: str) -> asyncio.Future[None]:
        """What is done when it is this user's turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(future)
        return future

    def give(self) -> bool:
        """Give the next one a turn; false if there is none."""
        while self._waiting:
            user, queue = next(iter(self._waiting.items()))
            del self._waiting[user]
            future = queue.popleft()
            if queue:
                self._waiting[user] = queue  # behind everybody else
            if not future.done():  # its request may have gone
                future.set_result(None)
                return True
        return False


class LoopTurns:
    """The long work of one event loop."""

    def __init__(self) -> None:
        self._waiting = UsersInTurn()
        self._dispatching = False
        self._spent = 0.0  # seconds of long work in this round of the loop
        self._rounds = False  # a callback at the end of this round is under way
        self._given = 0.0  # when somebody was last given a turn

    async def run(self, user: str, work: Generator[object, None, T]) -> T:
        """What the work comes to."""
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
                return end.value  # type: ignore[no-any-return]  # what the generator returns
            self._spend(perf_counter() - began)
            await self.wait(user)

    async def pieces(self, user: str, work: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """The pieces that the work makes; an empty one is a place to pause at."""
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
                began = perf_counter()  # the reader's time is not the work's

    @property
    def _busy(self) -> bool:
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
        """Wait until it is this user's turn, at least until everybody else on the loop had one."""
        future = self._waiting.add(user)
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)
        await future

    def _dispatch(self) -> None:
        """Give the next user a turn, in each round of the loop one."""
        if self._waiting.give():
            self._given = perf_counter()
        self._dispatching = bool(self._waiting)
        if self._dispatching:
            asyncio.get_running_loop().call_soon(self._give_time)

    def _give_time(self) -> None:
        """After a turn that could not be cut short, everybody else has as much time before the next."""
        taken = perf_counter() - self._given
        loop = asyncio.get_running_loop()
        if taken > 2 * SLICE_SECONDS:
            loop.call_later(min(taken, _LONGEST_BREAK_SECONDS), self._dispatch)
        else:
            loop.call_soon(self._dispatch)


class Steps:
    """The small steps of a stream, of which nobody knows how many there will be: together they take turns, too."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._began = 0.0

    async def begin(self) -> None:
        """Something has arrived."""
        if turns()._busy:
            await turns().wait(self._user)
        self._began = perf_counter()

    async def step(self) -> None:
        """A part of it is done; more may follow."""
        spent = perf_counter() - self._began
        if spent > SLICE_SECONDS:
            turns()._spend(spent)
            await turns().wait(self._user)
            self._began = perf_counter()

    def end(self) -> None:
        """All of it is done."""
        turns()._spend(perf_counter() - self._began)


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, some at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def pause(user: str) -> None:
    """Wait for the next turn, between two steps of long work."""
    await turns().wait(user)


class LoopShare:
    """The allowance of one event loop."""

    def __init__(self) -> None:
        self._left = ALLOWANCE
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._renews = False

    def give_at_once(self, units: int) -> bool:
        """Give units of work unless others wait for some; usually nobody has to wait, and no coroutine is needed."""
        return not self._waiting and self._give(units)

    async def wait(self, units: int) -> None:
        """Return when so many units of work may be done; a request above the allowance gets a round of its own."""
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


class _Loop:
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self.turns = LoopTurns()
        self.share = LoopShare()


_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()


def turns() -> LoopTurns:
    """The long work of the running event loop."""
    return _running().turns


async def take(units: int) -> None:
    """Wait until the running event loop has room for so many units of work."""
    share = _running().share
    if not share.give_at_once(units):
        await share.wait(units)


def _running() -> _Loop:
    loop = asyncio.get_running_loop()
    found = _LOOPS.get(loop)
    if found is None:
        found = _LOOPS[loop] = _Loop()
    return found


async def in_turns(items: Sequence[T], units: int = SCAN) -> AsyncGenerator[Sequence[T], None]:
    """The items in parts, each of which is an allowance of work at the most; an item is so many units."""
    size = max(1, ALLOWANCE // 2 // units)
    for start in range(0, len(items), size):
        part = items[start : start + size]
        await take(units * len(part))
        yield part
