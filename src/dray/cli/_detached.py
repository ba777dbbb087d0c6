"""Running `dray up` in the background: a process of its own session, whose log lies in the cluster's directory."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from dray.cli import _clusters, fail

LOG = "dray.log"
_START_SECONDS = 60.0


def start(args: argparse.Namespace) -> int:
    """Start the same command line without `--detach`, wait until it is ready, and say what it said."""
    try:
        directory = _clusters.directory_of(args)
    except _clusters.ClusterError as error:
        return fail("up", error)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = directory / LOG
    command = [sys.executable, "-m", "dray", *(word for word in sys.argv[1:] if word != "--detach")]
    with log.open("wb") as file:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    return _follow(child, log, f"dray down{_clusters.ClusterDirectory(directory).option}")


def _follow(child: subprocess.Popen[bytes], log: Path, end: str) -> int:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if "\nready\n" in text:
            print(text.replace("\nready\n", "\n"), end="")
            print(f"it goes on in the background (process {child.pid}, log {log}); `{end}` ends it")
            return 0
        if child.poll() is not None:
            print(text, end="", file=sys.stderr)
            return child.returncode or 1
        time.sleep(0.05)
    print(
        f"dray up: not ready after {_START_SECONDS:g} s; process {child.pid} goes on, its log is {log}", file=sys.stderr
    )
    return 1
