"""The worker process: reads computations, lets them take turns, and writes their outcomes.

It has a low priority, ends with the process that started it, and leaves signals to that one.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from dray.background.frames import HEAD, frame, length
from dray.background.rotation import ComputationOutcome, Interrupt, Rotation

NICE = 10
FRAMES = 50_000  # of recursion: computations share the limit, and none may lower it under another


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sys.setrecursionlimit(FRAMES)
    rotation = Rotation()
    threading.Thread(target=_read, args=(sys.stdin.buffer, rotation), daemon=True).start()
    while True:
        number, outcome = rotation.next()
        try:
            message = frame(number, outcome)
        except Exception as error:  # a result that cannot be pickled
            message = frame(number, ComputationOutcome(failed=f"{type(error).__name__}: {error}"))
        _send(message)


def guarded(computation: Callable[[Interrupt], Any]) -> Callable[[Interrupt], ComputationOutcome]:
    """The same computation, which does not raise: a failure is an outcome, with a note where errors of the program go."""

    def compute(interrupt: Interrupt) -> ComputationOutcome:
        is_cancelled = False

        def asked() -> bool:
            nonlocal is_cancelled
            is_cancelled = interrupt()
            return is_cancelled

        try:
            return ComputationOutcome(computation(asked))
        except Exception as error:
            if not is_cancelled:
                traceback.print_exc()
            return ComputationOutcome(failed=f"{type(error).__name__}: {error}")

    return compute


def _send(message: bytes) -> None:
    try:
        sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()
    except OSError:
        os._exit(0)  # nobody is there any more


def _read(stream: BinaryIO, rotation: Rotation) -> None:
    """Messages are a number, a computation, or None to cancel it, and its path."""
    while len(head := stream.read(HEAD)) == HEAD:
        number, computation, path = pickle.loads(stream.read(length(head)))
        if computation is None:
            rotation.cancel(number)
        else:
            rotation.add(number, guarded(computation), path)
    os._exit(0)  # nobody is there any more, whatever is being computed


if __name__ == "__main__":
    main()
