"""Runtime `fake`: containers that exist only in the API, for simulating thousands of nodes and for tests.

A container runs and ends as its pod's annotations say (`played`). The runtime executes nothing and writes nothing, so
no state outlives the agent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dray.client import Clock, SystemClock
from dray.node.played import BadAnnotation, exit_code, run_seconds
from dray.node.runtime import ContainerAttempt, ContainerKey, ContainerStartError, ExecError, ExecSession, Task
from dray.node.usage import ContainerUsage

_STOPPED = 143  # exit code as after SIGTERM


class FakeRuntime:
    """A `Runtime` that executes nothing and keeps container states in memory."""

    name = "fake"
    executes = False
    mounts_volumes = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._known: dict[str, dict[ContainerKey, ContainerAttempt]] = {}
        self._ended: dict[ContainerKey, asyncio.Event] = {}
        self.tasks: dict[ContainerKey, Task] = {}  # tasks that were started, for tests to inspect

    def cannot(self, task: Task) -> list[str]:
        return []

    def default_user(self) -> int:
        return os.geteuid()

    async def start(self, task: Task) -> ContainerAttempt:
        key = task.key
        attempts = self._known.setdefault(key.pod, {})
        if key in attempts:
            return attempts[key]
        try:
            seconds, code = run_seconds(task.annotations), exit_code(task.annotations)
        except BadAnnotation as error:
            raise ContainerStartError(str(error)) from error
        attempts[key] = ContainerAttempt(key, self._clock.time(), task.quick_ends)
        self._ended[key] = asyncio.Event()
        self.tasks[key] = task
        if seconds is not None:
            self._clock.call_later(seconds, lambda: self._end(key, code))
        return attempts[key]

    def attempts(self, pod: str) -> list[ContainerAttempt]:
        return sorted(self._known.get(pod, {}).values(), key=lambda attempt: attempt.key)

    def pods(self) -> Iterable[str]:
        return [*self._known]

    async def wait(self, key: ContainerKey) -> None:
        if key in self._ended:
            await self._ended[key].wait()

    async def stop(self, key: ContainerKey, grace: float) -> None:
        self._end(key, _STOPPED)

    async def exec(
        self, key: ContainerKey, argv: Sequence[str], *, tty: bool = False, stdin: bool = False
    ) -> ExecSession:
        raise ExecError("the runtime fake executes nothing")

    async def attach(self, key: ContainerKey, *, stdin: bool = False) -> ExecSession:
        raise ExecError("the runtime fake executes nothing")

    def log(self, key: ContainerKey) -> Path | None:
        return None

    def usage(self, keys: Sequence[ContainerKey]) -> dict[ContainerKey, ContainerUsage]:
        return {}

    def remove(self, pod: str) -> None:
        for key in self._known.pop(pod, {}):
            del self._ended[key], self.tasks[key]

    def _end(self, key: ContainerKey, code: int) -> None:
        attempts = self._known.get(key.pod, {})
        attempt = attempts.get(key)
        if attempt is not None and attempt.running:
            reason = "Error" if code else "Completed"
            attempts[key] = dataclasses.replace(attempt, finished=self._clock.time(), exit_code=code, reason=reason)
            self._ended[key].set()
