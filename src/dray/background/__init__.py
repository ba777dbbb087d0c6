"""Computations outside the event loop, in a separate worker process: selectors, policies, schemas, searches,
questions.

A process is used because Python runs one thread at a time. Measurements with a busy scheduler on a busy machine: with
a low-priority process, the scheduler kept 96 % of its speed; with a thread that paused half of the time, 60 %,
because the loop waits for the thread at every switch of the interpreter; with slices of 4 ms every 20 ms on the loop
itself, 65 %. The price: the loop must serialize computations and their input once (a millisecond for a hundred
devices).
"""

from dray.background.background import Background, Computation, ComputationFailed
from dray.background.rotation import Interrupt

__all__ = ["Background", "Computation", "ComputationFailed", "Interrupt"]
