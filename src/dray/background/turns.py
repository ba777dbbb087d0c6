"""Computations that take turns: each runs until it is done or its turn is over, and its next turn is twice as long.

So a short one does not wait for a long one, and one that must start over in each turn comes to an end all the same. Left
out: where computations come from and what becomes of what they find (`worker`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

FIRST_TURN = 0.25  # seconds

Interrupt = Callable[[], bool]  # asked often by what computes; once it says yes, the computation is to stop


class Computation(Protocol):
    """Something to compute. It is sent to another process and run there; what it found is sent back to it."""

    def run(self, interrupt: Interrupt) -> bool:
        """Go on until done, or until told to stop; answers whether it is done."""

    def found(self) -> Any:
        """What was found so far, to be sent."""

    def accept(self, found: Any) -> None:
        """Take what was found in the other process."""


@dataclass
class Turn:
    """A computation that waits for its turn."""

    number: int
    computation: Computation
    seconds: float = FIRST_TURN
    is_cancelled: bool = False


class Turns:
    """The computations under way. One thread adds and cancels them, another computes."""

    def __init__(self) -> None:
        self._waiting: deque[Turn] = deque()
        self._known: dict[int, Turn] = {}
        self._changed = threading.Condition()

    def add(self, number: int, computation: Computation) -> None:
        with self._changed:
            turn = self._known[number] = Turn(number, computation)
            self._waiting.append(turn)
            self._changed.notify()

    def cancel(self, number: int) -> None:
        if (turn := self._known.get(number)) is not None:
            turn.is_cancelled = True

    def next(self) -> tuple[Turn, bool]:
        """Compute until something is done or cancelled; what, and whether it is done."""
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                turn = self._waiting.popleft()
            is_done = not turn.is_cancelled and self._take(turn)
            if is_done or turn.is_cancelled:
                del self._known[turn.number]
                return turn, is_done
            turn.seconds *= 2
            with self._changed:
                self._waiting.append(turn)

    @staticmethod
    def _take(turn: Turn) -> bool:
        ends = time.monotonic() + turn.seconds
        return turn.computation.run(lambda: turn.is_cancelled or time.monotonic() > ends)
