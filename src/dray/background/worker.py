"""The worker process: reads computations, runs them in turns, and writes their outcomes.

It has low priority, ends with the process that started it, and ignores interrupt signals.
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
FRAMES = 50_000  # recursion limit, shared by all computations, so that none may lower it


def main() -> None:
    """Run computations in turns and write their outcomes, until the parent process ends."""
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
    """Return a computation that never raises: errors become an outcome and are printed, unless it was cancelled."""

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
        os._exit(0)  # the parent process has ended


def _read(stream: BinaryIO, rotation: Rotation) -> None:
    """Read messages and add or cancel computations.

    A message is a number, a computation (None to cancel) and its path.
    """
    while len(head := stream.read(HEAD)) == HEAD:
        number, computation, path = pickle.loads(stream.read(length(head)))
        if computation is None:
            rotation.cancel(number)
        else:
            rotation.add(number, guarded(computation), path)
    os._exit(0)  # the parent process has ended, so running computations are useless


if __name__ == "__main__":
    main()
