"""How much an expression may take. The limits of text, cost and nesting are those of Kubernetes.

Its costs do not cover everything, though: joining two lists costs one, however long they are, and
what a text grows to is charged only when it is read again. So there is a second account, of
effort: the sizes of what is made and compared. No reasonable expression comes near its limit.
Both are counted together in steps, which is what a search for devices has a budget of. No clock is read here.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.errors import CostExceeded, TooSlow

Interrupt = Callable[[], bool]  # asked now and then; once it says yes, an evaluation ends with Interrupted

MAX_LENGTH = 10 * 1024  # of a selector, in bytes
MAX_POINTS = 100_000  # of any expression, in code points
MAX_COST = 1_000_000
SHORT_LENGTH = 2 * 1024  # in code points: what most expressions stay far below

TEXT_COST_FACTOR = 0.1
REGEX_COST_FACTOR = 0.25

MAX_EFFORT = 20_000_000  # about as many characters, a fraction of a second
_UNMETERED_EFFORT = 10_000  # for one operation of generated code, which keeps no account
_ELEMENT_EFFORT = 4  # an element of a list against a character

# One step was measured at about 10 µs for costly expressions.
STEP_COST = 10  # cost of a complete evaluation in one step
STEP_ESTIMATE = 500  # estimated cost of generated code in one step: it keeps no account, so its estimate is its price
STEP_EFFORT = 1_000  # effort in one step


class EffortAccount:
    """What is left of the effort that an evaluation may take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT

    @property
    def spent(self) -> int:
        return MAX_EFFORT - max(0, self.left)

    def spend_text(self, size: int) -> None:
        """Spend the effort of making a text, or bytes, of this size; raises CostExceeded."""
        self.left -= size
        if self.left < 0:
            raise CostExceeded

    def spend_elements(self, count: int) -> None:
        """Spend the effort of making a list of this size, or of comparing so many elements; raises CostExceeded."""
        self.spend_text(_ELEMENT_EFFORT * count)


class _SingleOperations(EffortAccount):
    """Limits each operation and adds nothing up."""

    def spend_text(self, size: int) -> None:
        if size > _UNMETERED_EFFORT:
            raise CostExceeded


UNMETERED: EffortAccount = _SingleOperations()
"""The account of generated code, and of calls that are computed while an expression is compiled."""


def giving_up(interrupt: Interrupt) -> Interrupt:
    """Ends with TooSlow once `interrupt` says yes, for an evaluation that starts over later."""

    def ending() -> bool:
        if interrupt():
            raise TooSlow
        return False

    return ending
