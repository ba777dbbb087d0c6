"""How much a search for devices may take, counted in steps and never in seconds.

A step is a fixed amount of work: an evaluation of a plain selector on a device, or a part of a question that the
search asks itself. The same question takes the same steps on every machine, however busy it is, so a budget of steps
gives the same answer everywhere. Seconds that people configure become steps at one rate. Left out: what takes how
many steps (`content`, `feasibility`, `dray.cel.limits`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from dray.cel import Interrupt, Interrupted

STEPS_PER_SECOND = 50_000  # rounded down: hard searches were measured at about 100,000
ATTEMPT_NODES = (
    6  # an attempt may use the budgets of this many nodes; nodes that it has not decided by then stay undecided
)
ENOUGH = 10  # once a node fits, an attempt ends after one node's budget divided by this
TURN = (
    200  # steps between two turns of others: 4 ms at the rate above, and less than 20 ms on a machine a third as fast
)
QUICK_SEARCH = 100  # steps that go into a search before it is left to another process


class OutOfSteps(Interrupted):
    """The computation takes more steps than it may."""


class Budget(NamedTuple):
    """Steps that a question about many nodes may take; None for no limit.

    Each node may take `node` steps. Nodes are charged in the order of their numbers, and what several nodes have in
    common is charged once. Once `total` steps are charged, nodes that would need more are left undecided; where a
    node fits, that is so after `enough` steps.
    """

    node: int | None = None
    total: int | None = None
    enough: int | None = None

    @property
    def least(self) -> int | None:
        """The smaller one of `total` and `enough`; None if neither is limited."""
        if self.enough is None or self.total is None:
            return self.total if self.enough is None else self.enough
        return min(self.total, self.enough)

    @classmethod
    @cache
    def of(cls, seconds: float, *, per_node: bool = False) -> Budget:
        """The budget of a filter timeout. With `per_node`, all nodes may use up theirs; 0 seconds mean no limit."""
        if seconds <= 0:
            return UNLIMITED
        node = steps_in(seconds)
        return cls(node) if per_node else cls(node, node * ATTEMPT_NODES, node // ENOUGH)

    def thorough(self) -> Budget:
        """Return this budget for a question about every node, which does not end at the first node that fits."""
        return self._replace(enough=None)


UNLIMITED = Budget()


def steps_in(seconds: float) -> int:
    """Convert a timeout in seconds, as users configure it, to steps.

    The result is at least 1.
    """
    return max(1, int(seconds * STEPS_PER_SECOND))


class Turn:
    """Steps that a computation may still take before it is interrupted for other work. Never changes the result."""

    __slots__ = ("left",)

    def __init__(self, steps: int = TURN) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps

    @property
    def is_over(self) -> bool:
        return self.left <= 0


class StepMeter:
    """Counts the steps of a computation. Raises OutOfSteps beyond the limit and Interrupted when `interrupt` returns
    true.
    """

    __slots__ = ("interrupt", "limit", "steps")

    def __init__(self, limit: int | None = None, interrupt: Interrupt | None = None) -> None:
        self.limit = limit
        self.interrupt = interrupt
        self.steps = 0

    def spend(self, steps: int = 1) -> None:
        self.steps += steps
        if self.limit is not None and self.steps > self.limit:
            raise OutOfSteps
        if self.interrupt is not None and self.interrupt():
            raise Interrupted

    @property
    def is_out(self) -> bool:
        """Whether the steps taken exceed the limit. False without a limit."""
        return self.limit is not None and self.steps > self.limit


def left_of(limit: int | None, steps: int) -> int | None:
    """Return the steps that remain of a limit, or None without a limit. Raises OutOfSteps if the limit is exceeded."""
    if limit is None:
        return None
    if steps > limit:
        raise OutOfSteps
    return limit - steps
