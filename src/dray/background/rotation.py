"""Rotation of computations in the worker process: each runs for 10 ms, then the next, and so on.

Each computation has its own thread and waits inside `interrupt` during the turns of others, so it is never restarted.
A computation has a path: kind, user and job. Turns rotate among kinds, among the users of a kind, and among the jobs
of a user; computations of one job run one after the other. A new computation is next, so short ones hardly wait for
long ones. A computation that does not call `interrupt` in time shares the processor with the next one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TURN = 0.01  # seconds
OVERRUN = 0.01  # seconds by which a computation may exceed its turn before the next one starts in parallel
_SHORT = 0.002  # minimum seconds to wait for a late computation
# Limits of started computations per kind, and per user of a kind, because each keeps results in memory. If the limit of
# a kind is reached, users without a started computation may still start one.
AT_ONCE = 32
AT_ONCE_OF_USER = 16

Interrupt = Callable[[], bool]
"""Called often by a computation. Returns once it may go on; true tells it to stop, since nobody wants the result."""

JobPath = tuple[str, str, Hashable]
"""Kind, user and job of a computation."""


class ComputationOutcome(NamedTuple):
    """Result of a computation, or its error message."""

    value: Any = None
    failed: str = ""


@dataclass(eq=False)
class QueuedComputation:
    """A computation that waits for its turn."""

    number: int
    compute: Callable[[Interrupt], ComputationOutcome]
    path: JobPath
    is_cancelled: bool = False
    is_begun: bool = False
    outcome: ComputationOutcome | None = None
    ends: float = 0.0
    may_go_on: threading.Event = field(default_factory=threading.Event)


class _Branch:
    """Computations whose paths start with the same part, grouped by the next part; the next to be served is first."""

    def __init__(self) -> None:
        self._parts: OrderedDict[Hashable, _Branch | deque[QueuedComputation]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, computation: QueuedComputation, path: tuple[Hashable, ...]) -> None:
        part = self._parts.get(path[0])
        if part is None:
            part = self._parts[path[0]] = _Branch() if len(path) > 1 else deque()
            self._parts.move_to_end(path[0], last=False)
        if isinstance(part, _Branch):
            part.add(computation, path[1:])
        else:
            part.append(computation)

    def choose(self, may_run: Callable[[QueuedComputation], bool]) -> QueuedComputation | None:
        """Return the next computation that may run, and move its branch behind the others; None if none may run."""
        for name, part in self._parts.items():
            first = part.choose(may_run) if isinstance(part, _Branch) else part[0]
            chosen = first if first is not None and may_run(first) else None
            if chosen is not None:
                self._parts.move_to_end(name)
                return chosen
        return None

    def remove(self, computation: QueuedComputation, path: tuple[Hashable, ...]) -> None:
        part = self._parts[path[0]]
        if isinstance(part, _Branch):
            part.remove(computation, path[1:])
        else:
            part.remove(computation)
        if not part:
            del self._parts[path[0]]


class Rotation:
    """The pending computations. One thread adds and cancels them, another gives them turns."""

    def __init__(self) -> None:
        self._waiting = _Branch()
        self._known: dict[int, QueuedComputation] = {}
        # number of started computations by kind, and by kind and user
        self._begun: Counter[tuple[str, ...]] = Counter()
        self._running: QueuedComputation | None = None  # the computation whose turn it is
        self._changed = threading.Condition()

    def add(self, number: int, compute: Callable[[Interrupt], ComputationOutcome], path: JobPath) -> None:
        """Add a computation under its number and path."""
        with self._changed:
            queued = self._known[number] = QueuedComputation(number, compute, path)
            self._waiting.add(queued, path)
            self._changed.notify_all()

    def cancel(self, number: int) -> None:
        """Cancel a computation; unknown numbers are ignored."""
        with self._changed:
            if (queued := self._known.get(number)) is not None:
                queued.is_cancelled = True
                self._changed.notify_all()

    def next(self) -> tuple[int, ComputationOutcome]:
        """Give turns to computations until one ends. Returns its number and outcome. Blocks while none can run."""
        with self._changed:
            while True:
                queued = self._waiting.choose(self._may_run)
                if queued is None:
                    self._changed.wait()
                    continue
                if queued.is_cancelled and not queued.is_begun:
                    queued.outcome = ComputationOutcome()
                elif queued.outcome is None:
                    self._let(queued)
                if queued.outcome is not None:
                    self._forget(queued)
                    return queued.number, queued.outcome

    def _may_run(self, queued: QueuedComputation) -> bool:
        """Whether a computation has started, is cancelled, or may start within the limits."""
        kind, user, _ = queued.path
        room = AT_ONCE_OF_USER if self._begun[kind,] < AT_ONCE else 1  # one per user, without limit on users
        return queued.is_begun or queued.is_cancelled or self._begun[kind, user] < room

    def _let(self, queued: QueuedComputation) -> None:
        """Give a computation its turn, and wait until the turn is over."""
        self._running, queued.ends = queued, time.monotonic() + TURN
        if queued.is_begun:
            queued.may_go_on.set()
        else:
            queued.is_begun = True
            self._begun.update(_levels(queued))
            threading.Thread(target=self._compute, args=(queued,), daemon=True).start()
        while self._running is queued:
            left = queued.ends + OVERRUN - time.monotonic()
            if not self._changed.wait(max(_SHORT, left)) and len(self._known) > 1:
                self._running = None  # late, and others wait

    def _compute(self, queued: QueuedComputation) -> None:
        outcome = queued.compute(lambda: self._ask(queued))
        with self._changed:
            queued.outcome = outcome
            if self._running is queued:
                self._running = None
            self._changed.notify_all()

    def _ask(self, queued: QueuedComputation) -> bool:
        """Return whether a computation must stop. If its turn is over and others wait, blocks until its next turn."""
        if queued.is_cancelled:
            return True
        if self._running is queued and time.monotonic() < queued.ends:
            return False
        with self._changed:
            if self._running is queued:
                if len(self._known) == 1:
                    queued.ends = time.monotonic() + TURN
                    return False
                self._running = None
                self._changed.notify_all()
            queued.may_go_on.clear()
        queued.may_go_on.wait()
        return queued.is_cancelled

    def _forget(self, queued: QueuedComputation) -> None:
        del self._known[queued.number]
        self._waiting.remove(queued, queued.path)
        if queued.is_begun:
            self._begun.subtract(_levels(queued))
            self._begun += Counter()  # drop zero counts


def _levels(queued: QueuedComputation) -> Iterator[tuple[str, ...]]:
    kind, user, _ = queued.path
    yield (kind,)
    yield kind, user
