"""The real command as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.waiting import SECONDS

DRAY = (sys.executable, "-c", "import sys; from dray.cli import main; sys.exit(main())")


def heed_interrupts() -> None:
    """For `preexec_fn`: SIGINT ends the program. What a shell starts in the background ignores it, as all its children do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Dray:
    """`dray COMMAND …` in the foreground of its own process; a context manager that ends it.

    `program` runs dray in another way, such as with a probe. `log` takes standard error: a pipe that nobody reads, which is
    the default, stops a server that logs much.
    """

    def __init__(self, *arguments: str | Path, program: Sequence[str] = DRAY, log: Path | None = None) -> None:
        self._program = program
        self._log = log
        self._arguments = [str(argument) for argument in arguments]
        self.lines: list[str] = []

    def __enter__(self) -> Dray:
        self._begun = time.monotonic()
        with self._log.open("w") if self._log else nullcontext(subprocess.PIPE) as errors:
            self.process = subprocess.Popen(
                [*self._program, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ},
                preexec_fn=heed_interrupts,
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1] == "ready":
                self.seconds = time.monotonic() - self._begun
                return self
        told = self._log.read_text() if self._log else self.process.stderr and self.process.stderr.read()
        raise AssertionError(f"not ready: {told}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def __exit__(self, *reason: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def outcome(*arguments: str | Path) -> tuple[int, str]:
    """The exit status of a command that ends by itself, and what it said."""
    done = subprocess.run(
        [*DRAY, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ}
    )
    return done.returncode, done.stdout + done.stderr
