"""The event loop's side of the worker process: starts it when there is something to compute, and hands over results.

A process has one `Background`, which is created where its parts are put together and given to all of them. If the worker
process ends, its computations begin again in a new one. Left out: what is computed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import sys
from collections.abc import Hashable
from contextlib import suppress
from typing import Protocol, TypeVar

from dray.background.frames import HEAD, frame, length
from dray.background.rotation import ComputationOutcome, Interrupt

log = logging.getLogger(__name__)

TRIES = 3  # times that a computation may be lost with its process before it counts as the cause
IDLE_SECONDS = (
    180.0  # after which a worker process without computations ends: longer than it keeps copies for a dashboard
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Computation(Protocol[T_co]):
    """A pure function that can be pickled. It calls `interrupt` often and may end in any way once that returns true."""

    def __call__(self, interrupt: Interrupt, /) -> T_co: ...


class ComputationFailed(Exception):
    """A computation raised an exception, or took its process with it, time and again."""


class Background:
    """Computes beside the event loop, in one process with a low priority."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._results: dict[int, asyncio.Future[ComputationOutcome | None]] = {}  # None: lost with the process
        self._unsent: list[bytes] = []
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False
        self._resting: asyncio.TimerHandle | None = None

    async def compute(self, computation: Computation[T], kind: str, user: str = "", job: Hashable | None = None) -> T:
        """The result of a computation. Raises ComputationFailed, and what pickling raises. Cancelling the task ends it.

        Kinds take turns, and so do the users of a kind and the jobs of a user. Computations of one job are done in order.
        """
        for _ in range(TRIES):
            if self._is_closed:
                break
            number = next(self._numbers)
            self._send(frame(number, computation, (kind, user, number if job is None else job)))
            self._results[number] = future = asyncio.get_running_loop().create_future()
            try:
                outcome = await future
            except asyncio.CancelledError:
                if self._running is not None:
                    self._send(frame(number, None, None))
                raise
            finally:
                self._results.pop(number, None)
                self._rest()
            if outcome is not None:
                if outcome.failed:
                    raise ComputationFailed(outcome.failed)
                return outcome.value  # type: ignore[no-any-return]  # what the computation returned
        raise ComputationFailed("the process that computes has ended")

    @property
    def pid(self) -> int | None:
        """The worker process, if one runs."""
        return None if self._process is None else self._process.pid

    def restart(self) -> None:
        """End the worker process, as if it had failed. What it computes begins again in a new one."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """End the worker process, and with it what it is computing."""
        self._is_closed = True
        if self._resting is not None:
            self._resting.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _send(self, message: bytes) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if self._process is None or self._process.stdin is None:
            self._unsent.append(message)
        else:
            self._process.stdin.write(message)
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="background")

    def _rest(self) -> None:
        if not self._results and not self._is_closed and self._running is not None and self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.restart)

    async def _run(self) -> None:
        try:
            pipe = asyncio.subprocess.PIPE
            command = [sys.executable, "-m", "dray.background.worker"]
            process = self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        except OSError as error:
            log.warning("no process for computations in the background: %s", error)
            self._forget()
            return
        try:
            for message in self._unsent:
                self._send(message)
            self._unsent.clear()
            await self._read(process)
            if self._results:
                log.warning("the process for computations in the background ended by itself")
        finally:
            self._forget()
            await _end(process)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await process.stdout.readexactly(HEAD)
                number, outcome = pickle.loads(await process.stdout.readexactly(length(head)))
                if (future := self._results.get(number)) is not None and not future.done():
                    future.set_result(outcome)

    def _forget(self) -> None:
        """Tell those who wait that their computations are lost. The next computation starts a new process."""
        self._process = self._running = None
        self._unsent.clear()
        results, self._results = self._results, {}
        for future in results.values():
            if not future.done():
                future.set_result(None)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    if process.returncode is None:
        process.kill()
    await process.stdout.read()
    await process.wait()
