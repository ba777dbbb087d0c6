"""Run a cluster in the background: as a process in its own session, with a log in the cluster's directory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dray.assembly.options import ServerStartError

LOG = "dray.log"
_START_SECONDS = 60.0


class DetachedCluster(NamedTuple):
    """A cluster in the background, and its output until it was ready."""

    pid: int
    log: Path
    said: str


def start(directory: Path, words: Sequence[str]) -> DetachedCluster:
    """Start `dray WORDS` in the background and wait until it is ready. Returns the cluster.

    Raises ServerStartError with the output if it does not start.
    """
    log = directory / LOG
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("wb") as file:
            child = subprocess.Popen(
                [sys.executable, "-m", "dray", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise ServerStartError(
            f"directory {directory} cannot be used: {error.strerror or error}; choose another with --dir"
        ) from error
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if "\nready\n" in text:
            return DetachedCluster(child.pid, log, text.replace("\nready\n", "\n"))
        if child.poll() is not None:
            raise ServerStartError(text.strip().removeprefix("dray up: "))
        time.sleep(0.05)
    raise ServerStartError(f"not ready after {_START_SECONDS:g} s; process {child.pid} continues, its log is {log}")
