"""Log in memory, for tests and for clusters that need no persistence.

A commit never suspends, so awaiting it does not yield to the event loop. The SQLite log extends this log: it
writes a commit to disk between checking and publishing it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from math import inf

from dray.store.errors import Closed, Unavailable
from dray.store.log import REPLAYED, Batch, KeyVersion, Op, RangePage
from dray.store.state import State

_EXPIRY_BATCH = 100  # keys deleted at one revision; more would block the event loop
_EXPIRY_RETRY = 60.0  # seconds until the next attempt after a failed write
_EXPIRY_PAUSE = 0.05  # seconds of delay, so that keys with similar deadlines are deleted together


class MemoryLog:
    """Log in memory; implements LocalLog."""

    replay = REPLAYED

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._state = State()
        self._sinks: list[Callable[[Batch], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf  # time of the timer; usually unchanged, because new keys mostly expire later
        self._expiry: asyncio.Future[None] | None = None
        self._closed = False

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        if self._closed:
            raise Closed("the log")
        state = self._state
        versions = state.check(ops)
        if versions:
            state.publish(versions)
            self._remember_deadlines(ops, versions)
            self._announce(versions)
        return state.head

    async def load(self, revision: int | None = None, after: str = "", limit: int | None = None) -> RangePage:
        return self._state.load(revision, after, limit)

    async def tail(self, after: int) -> AsyncIterator[Batch]:
        while not self._closed:
            if versions := self._state.since(after):
                after = versions[-1].revision
                yield Batch(after, versions)
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def head(self) -> int:
        return self._state.head

    async def probe(self) -> None:
        if self._closed:
            raise Closed("the log")

    async def compact(self, revision: int) -> None:
        for step in self._state.steps(revision):
            self._state.compact(step)
            await asyncio.sleep(0)

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake_tails()

    def attach(self, after: int, sink: Callable[[Batch], None]) -> Callable[[], None]:
        if versions := self._state.since(after):
            sink(Batch(versions[-1].revision, versions))
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    async def expire(self) -> None:
        """Delete the keys whose deadline has passed. Called by a timer, and by tests with their own clock."""
        while ops := self._state.due(self._clock(), _EXPIRY_BATCH):
            try:
                await self.commit(ops)
            except Unavailable:
                for op in ops:
                    self._state.expire_at(op.key, op.expected or 0, self._clock() + _EXPIRY_RETRY)
                return

    def _announce(self, versions: Sequence[KeyVersion]) -> None:
        batch = Batch(versions[-1].revision, versions)
        for sink in self._sinks:
            sink(batch)
        if self._waiters:
            self._wake_tails()

    def _wake_tails(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _remember_deadlines(self, ops: Sequence[Op], versions: Sequence[KeyVersion]) -> None:
        for op in ops:
            if op.ttl is not None and op.value is not None:
                self._state.expire_at(op.key, versions[0].revision, self._clock() + op.ttl)
                self._set_timer()

    def _set_timer(self) -> None:
        deadline = self._state.next_deadline()
        if self._closed or deadline is None or deadline >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        delay = max(deadline - self._clock(), 0) + _EXPIRY_PAUSE
        self._timer = asyncio.get_running_loop().call_later(delay, self._expire_soon)

    def _expire_soon(self) -> None:
        self._due = inf
        self._expiry = asyncio.ensure_future(self._expire_and_rearm())

    async def _expire_and_rearm(self) -> None:
        with suppress(Closed):
            await self.expire()
            self._set_timer()
