"""Event loop's side of the worker process: starts the process on demand, sends computations, and receives results.

There is one `Background` per process, shared by all its parts. If the worker process ends, its computations restart
in a new one. Left out: what is computed.
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

TRIES = 3  # how often a computation may be lost with its process before it is given up
IDLE_SECONDS = 180.0  # an idle worker process ends after this time, which exceeds the lifetime of its dashboard copies

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Computation(Protocol[T_co]):
    """A pure, picklable function. It must call `interrupt` often, and may end in any way once that returns true."""

    def __call__(self, interrupt: Interrupt, /) -> T_co: ...


class ComputationFailed(Exception):
    """A computation raised an exception, or its process ended repeatedly."""


class Background:
    """Runs computations in one low-priority worker process."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._results: dict[int, asyncio.Future[ComputationOutcome | None]] = {}  # result None: lost with the process
        self._unsent: list[bytes] = []
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False
        self._resting: asyncio.TimerHandle | None = None

    async def compute(self, computation: Computation[T], kind: str, user: str = "", job: Hashable | None = None) -> T:
        """Run a computation in the worker process. Returns its result. Cancelling the task ends the computation.

        Kinds take turns, as do the users of a kind and the jobs of a user. Computations of one job run in order;
        without `job`, each is a job of its own. Raises ComputationFailed if the computation raises an error, its
        process ends repeatedly, or this object is closed. Raises a pickling error if the computation cannot be
        pickled.
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
                return outcome.value  # type: ignore[no-any-return]  # result of the computation
        raise ComputationFailed("the process that computes has ended")

    @property
    def pid(self) -> int | None:
        """PID of the worker process, or None if none is running."""
        return None if self._process is None else self._process.pid

    def restart(self) -> None:
        """Kill the worker process. Its unfinished computations restart in a new process."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """Kill the worker process with all its computations."""
        self._is_closed = True
        if self._resting is not None:
            self._resting.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _send(self, message: bytes) -> None:
        """Send a message to the worker process, starting the process if needed."""
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
        """Schedule the end of the worker process if it is idle."""
        if not self._results and not self._is_closed and self._running is not None and self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.restart)

    async def _run(self) -> None:
        """Run a worker process and read its results until it ends."""
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
        """Report all pending computations as lost. The next computation starts a new process."""
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
