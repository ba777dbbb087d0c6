"""Computations beside the event loop, in a process of their own: selectors, policies, schemas, searches, questions.

A process, because Python runs one thread at a time. Measured with a scheduler that was busy, on a machine that was too: a
process with a low priority left it 96 % of its speed; a thread that rested as often as it worked left 60 %, since the loop
waits for the thread to wake up each time that it passes the interpreter on; parts of 4 ms on the loop itself, one in 20 ms,
left 65 %. The price: what is computed, and on what, is written down once by the loop (a millisecond for a hundred devices).
"""

from dray.background.background import Background, Computation, ComputationFailed
from dray.background.rotation import Interrupt

__all__ = ["Background", "Computation", "ComputationFailed", "Interrupt"]
