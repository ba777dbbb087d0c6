"""How long the event loop is held, and by whom: measured from a thread beside it.

Now and then, and only while the loop's thread works at all, the thread asks the loop for a sign of life. What the loop's
thread has worked until it comes is the rest of a turn, in processor time: a busy machine is nobody's fault. A turn above a
tenth of a second is logged with what was running. Left out: doing anything about it.
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
_IDLE = 0.005  # seconds of work within a pause; a loop that does less has short turns
_LOUD_SECONDS = 0.1
_WINDOW_SECONDS = 60.0
_START_SECONDS = 5.0  # a process that begins still imports, and serves nobody: long turns then are worth less noise
_FOREIGN = ("asyncio", "uvloop", "concurrent", "threading", "contextlib")


class Watchdog:
    """Watches the event loop that it was made on, until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._ident)
        self._alive = threading.Event()
        self._sign = 0.0  # when the loop gave its last sign, in processor time of its thread
        self._stopping = threading.Event()
        self._begun = time.monotonic()
        self._turns: deque[tuple[float, float]] = deque()  # when, and how long; shorter ones before a longer are gone
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def longest(self) -> float:
        """The longest turn of the last minute, in seconds of processor time."""
        since = time.monotonic() - _WINDOW_SECONDS
        return max((seconds for when, seconds in [*self._turns] if when > since), default=0.0)

    def _watch(self) -> None:
        before = time.clock_gettime(self._clock)
        while not self._stopping.wait(_PAUSE_SECONDS):
            now = time.clock_gettime(self._clock)
            if now - before > _IDLE and not self._measure(now):
                return
            before = time.clock_gettime(self._clock)

    def _measure(self, began: float) -> bool:
        """Measure one turn; false if there is no loop any more."""
        self._alive.clear()
        try:
            self._loop.call_soon_threadsafe(self._give_sign)
        except RuntimeError:  # it is closed
            return False
        culprit, module = "", ""
        while not self._alive.wait(_PAUSE_SECONDS):
            if self._stopping.is_set():  # whoever stops us may be the loop's thread, which gives no sign while it waits
                return False
            if time.clock_gettime(self._clock) - began > _LOUD_SECONDS and not culprit:
                culprit, module = self._running()
        self._note(self._sign - began, culprit, module)
        return True

    def _give_sign(self) -> None:
        """The loop has its next turn. It says when itself: the other thread may be late to hear of it."""
        self._sign = time.clock_gettime(self._clock)
        self._alive.set()

    def _note(self, seconds: float, culprit: str, module: str) -> None:
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
        """What the loop's thread does now: task, function that the loop called, and where that has got to."""
        frame = sys._current_frames().get(self._ident)
        task = asyncio.current_task(self._loop)
        called: FrameType | None = None
        at: FrameType | None = None
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] in _FOREIGN:
                if called is not None:
                    break  # below this the loop itself runs
            else:
                at = at or frame
                called = frame
            frame = frame.f_back
        if called is None or at is None:
            return "", ""
        where = f"{_name(called)}, at {_name(at)} line {at.f_lineno}"
        return (f"task {task.get_name()}: {where}" if task else where), str(called.f_globals.get("__name__", ""))


def _name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"
