"""Clusters of the user: their directories, the processes that run them, and how to stop them.

A cluster is its directory. While `dray up` runs, it keeps a record there, and a link in the user's list so that `dray
list` finds clusters in any directory. A process is the cluster's only if its start time matches the record, because
process IDs are reused.
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
"""Prefix of the directory names of demonstration clusters, which `dray dashboard --demo` shows."""
_RECORD = "cluster.json"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_END_SECONDS = 30.0


class ClusterError(Exception):
    """Error with a cluster named by the user. The text is shown to the user."""


class Record(msgspec.Struct, frozen=True):
    """Record of a running cluster in its directory."""

    pid: int
    begun: int  # start time of the process, in kernel ticks since boot
    url: str
    runs: tuple[str, ...]  # running components as text: "3 simulated nodes × 8 devices"
    started: str
    state: str = ""  # location of the state; empty if the state is lost at the end


class ClusterDirectory:
    """A cluster, identified by its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @property
    def name(self) -> str:
        """Name of the cluster, or its directory if it is not in the user's data directory."""
        return self.directory.name if self.directory.parent == _home() else str(self.directory)

    @property
    def option(self) -> str:
        """Command line option that selects the cluster, with a leading space; empty for the cluster in `.dray`."""
        if self.directory.parent == _home():
            return f" --name {self.name}"
        return "" if self.directory == DEFAULT_DIR.resolve() else f" --dir {self.directory}"

    @property
    def exists(self) -> bool:
        """Whether the directory contains files of a cluster. Other directories are never deleted."""
        return any((self.directory / name).exists() for name in (_RECORD, "ca.key", "state.db"))

    def record(self) -> Record | None:
        """Return the record of the process that runs the cluster, or None if no process does.

        None also if the record cannot be read.
        """
        try:
            record = msgspec.json.decode(read_regular(self.directory / _RECORD), type=Record)
        except (OSError, msgspec.DecodeError):
            return None
        return record if _begun(record.pid) == record.begun else None

    def stop(self) -> Record | None:
        """Stop the process that runs the cluster. Returns its record, or None if no process ran.

        Waits for its end. Raises ClusterError if the process does not end in time.
        """
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
        """Delete the files of a stopped cluster.

        Also removes the cluster from the user's list.
        """
        shutil.rmtree(self.directory)
        _link(self.directory).unlink(missing_ok=True)

    @contextmanager
    def recorded(self, url: str, runs: tuple[str, ...], state: str) -> Iterator[None]:
        """Keep a record within the context, while the cluster runs in this process.

        Adds the cluster to the user's list.
        """
        pid = os.getpid()
        started = timestamp(time.time())
        record = Record(pid, _begun(pid) or 0, url, runs, started, state)
        path = self.directory / _RECORD
        path.write_bytes(msgspec.json.encode(record))
        with suppress(OSError):  # the cluster can run without an entry in the list
            link = _link(self.directory)
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.write_text(str(self.directory))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def clusters() -> list[ClusterDirectory]:
    """Return the user's clusters with an existing directory, sorted by name, without demonstration clusters."""
    found = {}
    with suppress(OSError):
        for link in (_home() / ".list").iterdir():
            cluster = ClusterDirectory(Path(read_text(link)))
            if cluster.exists and not cluster.directory.name.startswith(DEMO):
                found[cluster.directory] = cluster
    return sorted(found.values(), key=lambda cluster: cluster.name)


# Selecting a cluster


def directory_of(name: str, directory: Path | None) -> Path:
    """Return the directory of a cluster by name or path.

    Raises ClusterError if both are given or the name is invalid.
    """
    if not name:
        return directory or DEFAULT_DIR
    if directory is not None:
        raise ClusterError("--name and --dir both say where the cluster is: give one of them")
    if not _NAME.fullmatch(name):
        raise ClusterError(f"--name {name}: expected lower case letters, digits and '-', 63 at most")
    return _home() / name


def existing(name: str, directory: Path | None) -> ClusterDirectory:
    """Return an existing cluster. Raises ClusterError, which lists the existing ones."""
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
    """Return the start time of a process in kernel ticks, or None if it does not exist.

    A process that has ended but was not waited for does not count.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
