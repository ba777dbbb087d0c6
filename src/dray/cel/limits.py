"""Limits of expressions. The limits of length, cost and nesting are those of Kubernetes.

Kubernetes' cost does not cover all work: concatenating two lists costs one regardless of their length, and
building a long string costs nothing until it is read. Therefore a second account counts effort: the sizes of the
values that are created and compared. Its limit is far above the effort of any reasonable expression. Cost and
effort together are counted as steps, the unit of the allocator's search budget. This module does not read a
clock.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.errors import CostExceeded, TooSlow

Interrupt = Callable[[], bool]  # called regularly; if it returns True, the evaluation raises Interrupted

MAX_LENGTH = 10 * 1024  # maximum length of a selector in bytes
MAX_POINTS = 100_000  # maximum length of any expression in code points
MAX_COST = 1_000_000
SHORT_LENGTH = 2 * 1024  # in code points; most expressions are much shorter

TEXT_COST_FACTOR = 0.1
REGEX_COST_FACTOR = 0.25

MAX_EFFORT = 20_000_000  # about this many characters, which take a fraction of a second
_UNMETERED_EFFORT = 10_000  # limit of one operation in generated code, which has no account
_ELEMENT_EFFORT = 4  # effort of one list element, in characters

# One step was measured at about 10 µs for costly expressions.
STEP_COST = 10  # cost of a complete evaluation in one step
STEP_ESTIMATE = 500  # estimated cost of generated code in one step, used because generated code is not metered
STEP_EFFORT = 1_000  # effort in one step


class EffortAccount:
    """Remaining effort of one evaluation."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT

    @property
    def spent(self) -> int:
        return MAX_EFFORT - max(0, self.left)

    def spend_text(self, size: int) -> None:
        """Subtract the effort of creating a string or bytes of this size. Raises CostExceeded if exhausted."""
        self.left -= size
        if self.left < 0:
            raise CostExceeded

    def spend_elements(self, count: int) -> None:
        """Subtract the effort of creating or comparing this many elements. Raises CostExceeded if exhausted."""
        self.spend_text(_ELEMENT_EFFORT * count)


class _SingleOperations(EffortAccount):
    """Account that limits each operation separately and keeps no total."""

    def spend_text(self, size: int) -> None:
        if size > _UNMETERED_EFFORT:
            raise CostExceeded


UNMETERED: EffortAccount = _SingleOperations()
"""Account of generated code, and of calls that are evaluated at compile time."""


def giving_up(interrupt: Interrupt) -> Interrupt:
    """Return an interrupt function that raises TooSlow when `interrupt` returns True; for evaluations tried later."""

    def ending() -> bool:
        if interrupt():
            raise TooSlow
        return False

    return ending
