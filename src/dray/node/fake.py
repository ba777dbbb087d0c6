"""Runtime `fake`: containers that exist in the API only, for nodes by the thousand and for tests of everything else.

A container runs until it is stopped, or for the seconds that its pod's annotation says, and ends with the exit code of
another. Nothing is executed and nothing is written, so nothing outlives the agent.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from pathlib import Path

from dray.client import Clock, SystemClock
from dray.node.runtime import Attempt, Key, StartError, Task

SECONDS = "sim.dray.dev/seconds"
EXIT_CODE = "sim.dray.dev/exit-code"
_STOPPED = 143  # as if SIGTERM had ended it


class FakeRuntime:
    """A `Runtime` that only remembers."""

    name = "fake"
    needs_command = False
    mounts_volumes = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._known: dict[str, dict[Key, Attempt]] = {}
        self._ended: dict[Key, asyncio.Event] = {}
        self.tasks: dict[Key, Task] = {}  # what was asked for, for whoever wants to look

    def cannot(self, task: Task) -> list[str]:
        return []

    async def start(self, task: Task) -> Attempt:
        key = task.key
        attempts = self._known.setdefault(key.pod, {})
        if key in attempts:
            return attempts[key]
        seconds, code = _seconds(task), _exit_code(task)
        attempts[key] = Attempt(key, self._clock.time(), task.quick_ends)
        self._ended[key] = asyncio.Event()
        self.tasks[key] = task
        if seconds is not None:
            self._clock.call_later(seconds, lambda: self._end(key, code))
        return attempts[key]

    def attempts(self, pod: str) -> list[Attempt]:
        return sorted(self._known.get(pod, {}).values(), key=lambda attempt: attempt.key)

    def pods(self) -> Iterable[str]:
        return [*self._known]

    async def wait(self, key: Key) -> None:
        if key in self._ended:
            await self._ended[key].wait()

    async def stop(self, key: Key, grace: float) -> None:
        self._end(key, _STOPPED)

    def log(self, key: Key) -> Path | None:
        return None

    def remove(self, pod: str) -> None:
        for key in self._known.pop(pod, {}):
            del self._ended[key], self.tasks[key]

    def _end(self, key: Key, code: int) -> None:
        attempts = self._known.get(key.pod, {})
        attempt = attempts.get(key)
        if attempt is not None and attempt.running:
            reason = "Error" if code else "Completed"
            attempts[key] = dataclasses.replace(attempt, finished=self._clock.time(), exit_code=code, reason=reason)
            self._ended[key].set()


def _seconds(task: Task) -> float | None:
    text = task.annotations.get(SECONDS)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise StartError(f"annotation {SECONDS}: expected seconds, got {text!r}")
    return seconds


def _exit_code(task: Task) -> int:
    text = task.annotations.get(EXIT_CODE, "0")
    if not text.isdigit() or int(text) > 255:
        raise StartError(f"annotation {EXIT_CODE}: expected 0 to 255, got {text!r}")
    return int(text)
