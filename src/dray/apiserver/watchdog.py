"""Measure how long the event loop is blocked and by which task, from a separate thread.

While the loop's thread uses processor time, this thread periodically schedules a callback on the loop. The processor
time that the loop's thread uses until the callback runs is the rest of one turn of the loop; wall-clock time would
blame a task for a busy machine. A turn of more than 0.1 s is logged together with the running function. The watchdog
only reports.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from types import FrameType

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.05
_IDLE = 0.005  # seconds of processor time within a pause; a loop that uses less has short turns
_LOUD_SECONDS = 0.1
_WINDOW_SECONDS = 60.0
# a starting process still imports and serves no clients, so long turns are logged at a lower level
_START_SECONDS = 5.0
_FOREIGN = ("asyncio", "uvloop", "concurrent", "threading", "contextlib")


class Watchdog:
    """Watches the event loop on which it was created, until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._ident)
        self._alive = threading.Event()
        self._sign = 0.0  # when the callback last ran, in processor time of the loop's thread
        self._stopping = threading.Event()
        self._begun = time.monotonic()
        # (time, seconds) of each turn; a turn is dropped once a longer one follows
        self._turns: deque[tuple[float, float]] = deque()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stopping.set()
        self._thread.join()

    @property
    def longest(self) -> float:
        """Longest turn of the last minute, in seconds of processor time."""
        since = time.monotonic() - _WINDOW_SECONDS
        return max((seconds for when, seconds in [*self._turns] if when > since), default=0.0)

    def _watch(self) -> None:
        """Measure a turn after each pause in which the loop's thread was busy, until stopped."""
        before = time.clock_gettime(self._clock)
        while not self._stopping.wait(_PAUSE_SECONDS):
            now = time.clock_gettime(self._clock)
            if now - before > _IDLE and not self._measure(now):
                return
            before = time.clock_gettime(self._clock)

    def _measure(self, began: float) -> bool:
        """Measure one turn, waiting until it ends. Returns False if the loop is closed or the watchdog is stopping.

        `began` is the processor time of the loop's thread at the start.
        """
        self._alive.clear()
        try:
            self._loop.call_soon_threadsafe(self._give_sign)
        except RuntimeError:  # the loop is closed
            return False
        culprit, module = "", ""
        while not self._alive.wait(_PAUSE_SECONDS):
            if self._stopping.is_set():  # the loop's thread may be waiting in `stop` and cannot run the callback
                return False
            if time.clock_gettime(self._clock) - began > _LOUD_SECONDS and not culprit:
                culprit, module = self._running()
        self._note(self._sign - began, culprit, module)
        return True

    def _give_sign(self) -> None:
        """Callback on the loop. Records the time itself, because the watchdog's thread may wake up later."""
        self._sign = time.clock_gettime(self._clock)
        self._alive.set()

    def _note(self, seconds: float, culprit: str, module: str) -> None:
        """Record a turn, and log a turn of more than 0.1 s with its culprit.

        `seconds` is the processor time of the turn. `culprit` may be empty if no function was seen; `module` is that
        of the function that the loop called.
        """
        now = time.monotonic()
        while self._turns and (self._turns[-1][1] <= seconds):
            self._turns.pop()
        while self._turns and self._turns[0][0] < now - _WINDOW_SECONDS:
            self._turns.popleft()
        self._turns.append((now, seconds))
        if seconds > _LOUD_SECONDS and not self._stopping.is_set():
            said = {"seconds": seconds, "outermost": module}
            level = logging.WARNING if now - self._begun > _START_SECONDS else logging.INFO
            logger.log(
                level, "the event loop was held for %.0f ms by %s", seconds * 1000, culprit or "many", extra=said
            )

    def _running(self) -> tuple[str, str]:
        """Return what the loop's thread is running now, and the module of the function that the loop called.

        The first part names the task, the function that the loop called, and the innermost function with its line.
        Both parts are empty if the loop runs only its own code.
        """
        frame = sys._current_frames().get(self._ident)
        task = asyncio.current_task(self._loop)
        called: FrameType | None = None
        at: FrameType | None = None
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] in _FOREIGN:
                if called is not None:
                    break  # only the loop's own frames are below
            else:
                at = at or frame
                called = frame
            frame = frame.f_back
        if called is None or at is None:
            return "", ""
        where = f"{_name(called)}, at {_name(at)} line {at.f_lineno}"
        return (f"task {task.get_name()}: {where}" if task else where), str(called.f_globals.get("__name__", ""))


def _name(frame: FrameType) -> str:
    """Return the module and qualified name of a frame's function."""
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"
