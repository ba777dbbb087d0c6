"""Checks many selectors, as a computation that can be done in another process: long ones take a tenth of a second each."""

from __future__ import annotations

from collections.abc import Iterable

from dray.cel.limits import Interrupt
from dray.cel.selector import Refusal, check_selector


class SelectorChecking:
    """What is wrong with each of some selectors."""

    def __init__(self, expressions: Iterable[str]) -> None:
        self._left = list(expressions)
        self.refusals: dict[str, Refusal | None] = {}

    def run(self, interrupt: Interrupt) -> bool:
        """Check one after the other until told to stop; answers whether all are checked."""
        while self._left:
            self.refusals[self._left[-1]] = check_selector(self._left[-1])
            self._left.pop()
            if self._left and interrupt():
                return False
        return True

    def found(self) -> dict[str, Refusal | None]:
        return self.refusals

    def accept(self, found: dict[str, Refusal | None]) -> None:
        self.refusals = found
