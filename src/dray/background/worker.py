"""The process that computes: reads computations, lets them take turns, writes what they found.

It has a low priority, ends with the one that started it, and leaves signals to that one. A computation that fails counts
as over; whoever waits for it finds nothing new.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

from dray.background.frames import HEAD, HELLO, frame, length
from dray.background.turns import Computation, Interrupt, Turns

NICE = 10
FRAMES = 50_000  # of recursion: computations share the limit, and none may lower it under another


class _Guarded:
    """A computation whose failure ends it, with a note where the errors of the program go."""

    def __init__(self, computation: Computation) -> None:
        self._computation = computation

    def run(self, interrupt: Interrupt) -> bool:
        try:
            return self._computation.run(interrupt)
        except Exception:
            traceback.print_exc()
            return True

    def found(self) -> Any:
        return self._computation.found()

    def accept(self, found: Any) -> None:
        raise AssertionError("it is run here")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sys.setrecursionlimit(FRAMES)
    _send(frame(HELLO, True, None))
    turns = Turns()
    threading.Thread(target=_read, args=(sys.stdin.buffer, turns), daemon=True).start()
    while True:
        turn, is_done = turns.next()
        _send(frame(turn.number, is_done, turn.computation.found()))


def _send(message: bytes) -> None:
    try:
        sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()
    except OSError:
        os._exit(0)  # nobody is there any more


def _read(stream: BinaryIO, turns: Turns) -> None:
    """Messages are a number, a computation, or nothing to cancel it, and the key with which it takes turns."""
    while len(head := stream.read(HEAD)) == HEAD:
        number, computation, key = pickle.loads(stream.read(length(head)))
        if computation is None:
            turns.cancel(number)
        else:
            turns.add(number, _Guarded(computation), key)
    os._exit(0)  # nobody is there any more, whatever is being computed


if __name__ == "__main__":
    main()
