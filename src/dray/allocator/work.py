"""Long computations that an index postpones, in a form that another process can run.

An index that defers computes what is quick and returns the rest as work. The caller can run the work in another
process and ask again afterwards. Left out: the computations themselves (`content`, `search`), and processes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dray.cel import Interrupt, Interrupted


class Work:
    """A computation on immutable data. It can be pickled, run in another process, and given the result.

    While `is_in_worker_process` is set, the index ignores it: the caller sets it before sending the work away and resets it after
    `accept`. The computation counts its `steps` and ends once they exceed `limit`. The result does not depend on where it runs or
    how often it is interrupted.
    """

    is_in_worker_process = False
    is_given_up = False  # the worker process failed to compute it, so it counts as out of steps
    steps = 0
    limit: int | None = None

    @property
    def is_out(self) -> bool:
        """Whether the steps exceed the limit."""
        return self.limit is not None and self.steps > self.limit

    @property
    def is_over(self) -> bool:
        """Whether the computation is complete or out of steps."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of devices that are pickled with the work."""
        raise NotImplementedError

    def run(self, interrupt: Interrupt) -> bool:
        """Continue until complete, out of steps, or interrupted. Returns whether the computation is over."""
        raise NotImplementedError

    def compute(self, interrupt: Interrupt) -> Any:
        """Continue in another process, on a copy. Returns the results so far for `accept` of the original."""
        self.run(interrupt)
        return self.found()

    def found(self) -> Any:
        """Return the results so far."""
        raise NotImplementedError

    def accept(self, found: Any) -> None:
        """Take over results that another process computed."""
        raise NotImplementedError


class LeftOver(NamedTuple):
    """Work that unanswered questions wait for. If `is_hurried` is set, they need another turn to examine nodes."""

    works: tuple[Work, ...]
    is_hurried: bool

    @property
    def is_anything(self) -> bool:
        return self.is_hurried or bool(self.works)


class Deferred(Interrupted):
    """Raised when a question cannot be answered before some work is done."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
