"""How much an expression may take. The limits of text, cost and nesting are those of Kubernetes.

Its costs do not cover everything, though: joining two lists costs one, however long they are, and
what a text grows to is charged only when it is read again. So there is a second account, of
effort: the sizes of what is made and compared. No reasonable expression comes near its limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dray.cel.errors import CostExceeded, TooSlow

Interrupt = Callable[[], bool]  # asked now and then; once it says yes, an evaluation ends with Interrupted

MAX_LENGTH = 10 * 1024  # of a selector, in bytes
MAX_POINTS = 100_000  # of any expression, in code points
MAX_COST = 1_000_000
QUICK = 0.01  # seconds that an event loop spends on the expressions of one object
SHORT_LENGTH = 2 * 1024  # in code points: what most expressions stay far below

TEXT_COST_FACTOR = 0.1
REGEX_COST_FACTOR = 0.25

MAX_EFFORT = 20_000_000  # about as many characters, a fraction of a second
_UNMETERED_EFFORT = 10_000  # for one operation of generated code, which keeps no account
_ELEMENT_EFFORT = 4  # an element of a list against a character


class _Account:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT


_account: ContextVar[_Account | None] = ContextVar("_account", default=None)


@contextmanager
def metered() -> Iterator[None]:
    """Keep account of effort inside."""
    token = _account.set(_Account())
    try:
        yield
    finally:
        _account.reset(token)


def spend_text(size: int) -> None:
    """Before a text, or bytes, of this size is made; raises CostExceeded."""
    account = _account.get()
    if account is None:
        if size > _UNMETERED_EFFORT:
            raise CostExceeded
        return
    account.left -= size
    if account.left < 0:
        raise CostExceeded


def spend_elements(count: int) -> None:
    """Before a list of this size is made, or so many elements are compared; raises CostExceeded."""
    spend_text(_ELEMENT_EFFORT * count)


def quickly() -> Interrupt:
    """Ends with TooSlow what takes longer than an event loop can wait, in seconds of the thread's processor."""
    ends = time.thread_time() + QUICK

    def interrupt() -> bool:
        if time.thread_time() > ends:
            raise TooSlow
        return False

    return interrupt


def giving_up(interrupt: Interrupt) -> Interrupt:
    """Ends with TooSlow once `interrupt` says yes, for an evaluation that starts over later."""

    def ending() -> bool:
        if interrupt():
            raise TooSlow
        return False

    return ending


def at(deadline: float) -> Interrupt:
    """Interrupts at a reading of `time.monotonic()`."""
    return lambda: time.monotonic() > deadline
