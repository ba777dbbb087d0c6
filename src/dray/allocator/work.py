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
    """

    is_elsewhere = False

    def run(self, interrupt: Interrupt) -> bool:
        """Go on until done, or until told to stop; answers whether it is done."""
        raise NotImplementedError

    def found(self) -> Any:
        """What was found so far."""
        raise NotImplementedError

    def accept(self, found: Any) -> None:
        """Take what was found elsewhere."""
        raise NotImplementedError


class LeftOver(NamedTuple):
    """What questions were left unanswered for: this work; and, where `is_hurried`, also time to look at every node."""

    works: tuple[Work, ...]
    is_hurried: bool


class Deferred(Interrupted):
    """There is no answer before this work is done."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work = work
