"""The clusters of this user: where each has its directory, which process runs it, and how to end it.

A cluster is its directory. `dray up` leaves a record there while it runs, and a link in the user's list, so that
`dray list` finds clusters wherever they are. A process counts as the cluster's only if it began when the record says:
numbers of processes are given out again. Left out: starting one (`up`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from dray.api.times import timestamp
from dray.files import read_regular, read_text

DEFAULT_DIR = Path(".dray")
DEMO = "dray-demo-"
"""Prefix of the names of directories of invented clusters, which `dray dashboard --demo` shows."""
_RECORD = "cluster.json"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_END_SECONDS = 30.0


class ClusterError(Exception):
    """What is wrong with the cluster that was named, in words for a person."""


class Record(msgspec.Struct, frozen=True):
    """What a running cluster leaves in its directory."""

    pid: int
    begun: int  # of the process, in the kernel's ticks since the machine started
    url: str
    runs: tuple[str, ...]  # what it runs, in words: "3 simulated nodes × 8 devices"
    started: str
    state: str = ""  # where it is kept; empty for a cluster whose state is gone when it ends


class ClusterDirectory:
    """One cluster by its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @property
    def name(self) -> str:
        return self.directory.name if self.directory.parent == _home() else str(self.directory)

    @property
    def option(self) -> str:
        """How a command line names the cluster, with a space before it; empty for the one of this directory."""
        if self.directory.parent == _home():
            return f" --name {self.name}"
        return "" if self.directory == DEFAULT_DIR.resolve() else f" --dir {self.directory}"

    @property
    def exists(self) -> bool:
        """Whether there is something that a cluster left; nothing else is ever deleted."""
        return any((self.directory / name).exists() for name in (_RECORD, "ca.key", "state.db"))

    def record(self) -> Record | None:
        """The record of the process that runs the cluster; None when none does."""
        try:
            record = msgspec.json.decode(read_regular(self.directory / _RECORD), type=Record)
        except (OSError, msgspec.DecodeError):
            return None
        return record if _begun(record.pid) == record.begun else None

    def stop(self) -> Record | None:
        """End the process that runs the cluster, and say what it ran; None when there was none."""
        record = self.record()
        if record is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGTERM)
        deadline = time.monotonic() + _END_SECONDS
        while _begun(record.pid) == record.begun:
            if time.monotonic() > deadline:
                raise ClusterError(f"process {record.pid} of cluster {self.name} does not end; see its log")
            time.sleep(0.05)
        return record

    def delete(self) -> None:
        """Remove what the cluster left; it does not run any more."""
        shutil.rmtree(self.directory)
        _link(self.directory).unlink(missing_ok=True)

    @contextmanager
    def recorded(self, url: str, runs: tuple[str, ...], state: str) -> Iterator[None]:
        """Leave a record while the cluster runs in this process, and enter it into the user's list."""
        pid = os.getpid()
        started = timestamp(time.time())
        record = Record(pid, _begun(pid) or 0, url, runs, started, state)
        path = self.directory / _RECORD
        path.write_bytes(msgspec.json.encode(record))
        with suppress(OSError):  # a list that cannot be written is no reason not to run
            link = _link(self.directory)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.write_text(str(self.directory))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def clusters() -> list[ClusterDirectory]:
    """Return the clusters of this user that still have a directory, sorted by name; without invented ones."""
    found = {}
    with suppress(OSError):
        for link in (_home() / ".list").iterdir():
            cluster = ClusterDirectory(Path(read_text(link)))
            if cluster.exists and not cluster.directory.name.startswith(DEMO):
                found[cluster.directory] = cluster
    return sorted(found.values(), key=lambda cluster: cluster.name)


# Which cluster is meant


def directory_of(name: str, directory: Path | None) -> Path:
    """The directory of a cluster by its name or as it is given; ClusterError when both are."""
    if not name:
        return directory or DEFAULT_DIR
    if directory is not None:
        raise ClusterError("--name and --dir both say where the cluster is: give one of them")
    if not _NAME.fullmatch(name):
        raise ClusterError(f"--name {name}: expected lower case letters, digits and '-', 63 at most")
    return _home() / name


def existing(name: str, directory: Path | None) -> ClusterDirectory:
    """A cluster that is there; ClusterError, with those that there are, when it does not exist."""
    cluster = ClusterDirectory(directory_of(name, directory))
    if not cluster.exists:
        known = ", ".join(one.name for one in clusters()) or "none"
        raise ClusterError(f"there is no cluster in {cluster.directory}; clusters of yours: {known}")
    return cluster


def _home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share").resolve() / "dray"


def _link(directory: Path) -> Path:
    return _home() / ".list" / hashlib.sha256(str(directory).encode()).hexdigest()[:16]


def _begun(pid: int) -> int | None:
    """When a process began, in ticks of the kernel; None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
