"""The event loop's side: starts the process when there is something to compute, and hands over what is found.

If the process ends, what it was computing counts as cancelled, and the next computation gets a new one. Left out: what is
computed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import sys
from collections.abc import Hashable
from contextlib import suppress

from dray.background.frames import HEAD, HELLO, frame, length
from dray.background.turns import Computation

log = logging.getLogger(__name__)


class BackgroundJob:
    """A computation in the other process. `done` says whether it was done, after what it found was accepted."""

    def __init__(self, background: Background, number: int, computation: Computation) -> None:
        self._background = background
        self._number = number
        self.computation = computation
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def cancel(self) -> None:
        """Nobody waits for it any more; it ends soon, with what it found until then."""
        self._background.send(frame(self._number, None, None))


class Background:
    """Computes beside the event loop."""

    def __init__(self) -> None:
        self.is_ready = False  # whether the process has started
        self._numbers = itertools.count()
        self._jobs: dict[int, BackgroundJob] = {}
        self._unsent: list[bytes] = []
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self, computation: Computation, key: Hashable = None) -> BackgroundJob:
        """Compute this, in turn with others, and after those with the same key, if it has one. Raises what pickling raises."""
        number = next(self._numbers)
        job = BackgroundJob(self, number, computation)
        message = frame(number, computation, number if key is None else key)
        self._jobs[number] = job
        self.send(message)
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="background")
        return job

    async def close(self) -> None:
        """End the process, and with it what it is computing."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def send(self, message: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            self._unsent.append(message)
        else:
            self._process.stdin.write(message)

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
                self.send(message)
            self._unsent.clear()
            await self._read(process)
            log.warning("the process for computations in the background ended by itself")
        finally:
            self._forget()
            await _end(process)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await process.stdout.readexactly(HEAD)
                number, is_done, found = pickle.loads(await process.stdout.readexactly(length(head)))
                if number == HELLO:
                    self.is_ready = True
                    continue
                job = self._jobs.pop(number)
                job.computation.accept(found)
                job.done.set_result(is_done)

    def _forget(self) -> None:
        """What was being computed is lost; the next computation starts a new process."""
        self._process = self._running = None
        self.is_ready = False
        self._unsent.clear()
        jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            if not job.done.done():
                job.done.set_result(False)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    if process.returncode is None:
        process.kill()
    await process.stdout.read()
    await process.wait()
