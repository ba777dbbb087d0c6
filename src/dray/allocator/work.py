"""Work that an index leaves to others: computations that may take long, which do not need the index to go on.

An index that defers does what is quick, and leaves the rest as work. Whoever asked may let another process run it, and
asks again afterwards. Left out: the computations themselves (`content`, `search`), processes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dray.cel import Interrupt, Interrupted


class Work:
    """A computation on data that nobody changes; it can be pickled, run in another process, and told what was found.

    While it `is_elsewhere`, the index does not look at it: set this before, and reset it after what was found is accepted.
    It counts its `steps`, and ends once they are more than its `limit`. What it finds depends on neither where it runs
    nor how often it is interrupted.
    """

    is_elsewhere = False
    is_given_up = False  # it cannot be computed, so it counts as out of steps
    steps = 0
    limit: int | None = None

    @property
    def is_out(self) -> bool:
        """Whether it takes more steps than it may."""
        return self.limit is not None and self.steps > self.limit

    @property
    def is_over(self) -> bool:
        """Whether all was found out that is asked for, or it is out of steps."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many devices are written down with it."""
        raise NotImplementedError

    def run(self, interrupt: Interrupt) -> bool:
        """Go on until done or out of steps, or until told to stop; answers whether it is over."""
        raise NotImplementedError

    def compute(self, interrupt: Interrupt) -> Any:
        """Go on in a copy, in another process. Returns what was found, which the original accepts."""
        self.run(interrupt)
        return self.found()

    def found(self) -> Any:
        """What was found so far."""
        raise NotImplementedError

    def accept(self, found: Any) -> None:
        """Take what was found elsewhere."""
        raise NotImplementedError


class LeftOver(NamedTuple):
    """What questions were left unanswered for: this work; and, where `is_hurried`, also a turn to look at every node."""

    works: tuple[Work, ...]
    is_hurried: bool

    @property
    def is_anything(self) -> bool:
        return self.is_hurried or bool(self.works)


class Deferred(Interrupted):
    """There is no answer before this work is done."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
