"""Parts of a cluster as processes that can be killed at any moment, and what they complained about."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import IO

from tests.cli.running import DRAY
from tests.waiting import SECONDS


class Process:
    """`dray COMMAND …`, started again after each kill; a context manager that ends it."""

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self._arguments = [str(argument) for argument in arguments]
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._stderr: IO[str] | None = None

    def __enter__(self) -> Process:
        self.start()
        return self

    def start(self) -> None:
        """Run until it says that it is ready."""
        self._stderr = self._log.open("a")
        self._process = subprocess.Popen(
            [*DRAY, *self._arguments], stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "ready":
                return
        raise AssertionError(f"not ready: {self.complaints()}")

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.communicate(timeout=SECONDS)
        assert self._stderr is not None
        self._stderr.close()
        code = self._process.returncode
        self._process = None
        return code

    def signal(self, number: int) -> None:
        """Send a signal and do not wait; nothing happens to a process that has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def complaints(self) -> str:
        return self._log.read_text()

    def __exit__(self, *reason: object) -> None:
        if self._process is not None:
            self.kill()
