"""Computations that take turns: one computes for a few milliseconds, then the next one, and each goes on where it stopped.

A computation has a thread of its own, which waits inside `interrupt` while others have their turns. So nothing is computed
twice, and a computation finds the same however often it waits. Computations with the same key follow one another in the
order in which they came; keys take turns, so that nobody's many computations delay those of others. One that does not ask
in time whether to go on shares the processor with the next until it does. Left out: where computations come from and what
becomes of what they find (`worker`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

TURN = 0.01  # seconds
OVERRUN = 0.01  # seconds that a computation may be late with its question before the next one begins beside it
_SHORT = 0.002  # seconds: the shortest wait for one that is late
AT_ONCE = 32  # computations that are under way: each keeps in memory what it knows

Interrupt = Callable[[], bool]  # asked often by what computes; once it says yes, the computation is to stop


class Computation(Protocol):
    """Something to compute. It is sent to another process and run there; what it found is sent back to it."""

    def run(self, interrupt: Interrupt) -> bool:
        """Go on until done, or until told to stop; answers whether it is done."""

    def found(self) -> Any:
        """What was found so far, to be sent."""

    def accept(self, found: Any) -> None:
        """Take what was found in the other process."""


@dataclass(eq=False)
class QueuedComputation:
    """A computation that waits for its turn."""

    number: int
    computation: Computation
    key: Hashable
    is_cancelled: bool = False
    is_begun: bool = False
    is_over: bool = False
    is_done: bool = False
    ends: float = 0.0
    may_go_on: threading.Event = field(default_factory=threading.Event)


class Turns:
    """The computations under way. One thread adds and cancels them, another hands out turns."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, deque[QueuedComputation]] = OrderedDict()  # the next key first
        self._known: dict[int, QueuedComputation] = {}
        self._running: QueuedComputation | None = None  # whose turn it is
        self._changed = threading.Condition()

    def add(self, number: int, computation: Computation, key: Hashable) -> None:
        with self._changed:
            turn = self._known[number] = QueuedComputation(number, computation, key)
            self._keys.setdefault(key, deque()).append(turn)
            self._changed.notify_all()

    def cancel(self, number: int) -> None:
        if (turn := self._known.get(number)) is not None:
            turn.is_cancelled = True

    def next(self) -> tuple[QueuedComputation, bool]:
        """Let computations take turns until one is done or cancelled; which, and whether it is done."""
        with self._changed:
            while True:
                turn = self._choose()
                if turn is None:
                    self._changed.wait()
                    continue
                if turn.is_cancelled and not turn.is_begun:
                    turn.is_over = True
                elif not turn.is_over:
                    self._let(turn)
                if turn.is_over:
                    self._forget(turn)
                    return turn, turn.is_done

    def _choose(self) -> QueuedComputation | None:
        """The computation whose turn it is: the first of the key that has waited longest."""
        under_way = sum(turns[0].is_begun for turns in self._keys.values())
        for key, turns in self._keys.items():
            if turns[0].is_begun or under_way < AT_ONCE or turns[0].is_cancelled:
                self._keys.move_to_end(key)
                return turns[0]
        return None

    def _let(self, turn: QueuedComputation) -> None:
        """Let a computation have its turn, and wait until that is over."""
        self._running, turn.ends = turn, time.monotonic() + TURN
        if turn.is_begun:
            turn.may_go_on.set()
        else:
            turn.is_begun = True
            threading.Thread(target=self._compute, args=(turn,), daemon=True).start()
        while self._running is turn:
            left = turn.ends + OVERRUN - time.monotonic()
            if not self._changed.wait(max(_SHORT, left)) and len(self._keys) > 1:
                self._running = None  # it is late, and others wait

    def _compute(self, turn: QueuedComputation) -> None:
        is_done = turn.computation.run(lambda: self._ask(turn))
        with self._changed:
            turn.is_over, turn.is_done = True, is_done
            if self._running is turn:
                self._running = None
            self._changed.notify_all()

    def _ask(self, turn: QueuedComputation) -> bool:
        """Whether a computation is to stop; returns in its next turn where this one is over and others wait."""
        if turn.is_cancelled:
            return True
        if self._running is turn and time.monotonic() < turn.ends:
            return False
        with self._changed:
            if self._running is turn:
                if len(self._keys) == 1:
                    turn.ends = time.monotonic() + TURN
                    return False
                self._running = None
                self._changed.notify_all()
            turn.may_go_on.clear()
        turn.may_go_on.wait()
        return turn.is_cancelled

    def _forget(self, turn: QueuedComputation) -> None:
        del self._known[turn.number]
        turns = self._keys[turn.key]
        turns.remove(turn)
        if not turns:
            del self._keys[turn.key]
