"""Decides where expressions are evaluated: here while that is quick, otherwise in another process.

The clock chooses the place and never the answer: what is too slow here is evaluated from the beginning there. Left out:
evaluating (`dray.cel`), the other process (`dray.background`).
"""

from __future__ import annotations

import time

from dray.cel.errors import TooSlow
from dray.cel.limits import Interrupt

QUICK = 0.01  # seconds of the thread's processor that the event loop spends on the expressions of one object


def quickly() -> Interrupt:
    """Ends with TooSlow what takes longer than an event loop can wait."""
    ends = time.thread_time() + QUICK

    def interrupt() -> bool:
        if time.thread_time() > ends:
            raise TooSlow
        return False

    return interrupt
