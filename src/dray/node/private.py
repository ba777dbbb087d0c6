"""Directories and files that only the agent's user may read, whatever the umask: they hold secrets and tokens."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

log = logging.getLogger(__name__)


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, all with mode 0700."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def write_private(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def remove_tree(directory: Path) -> None:
    """Remove a directory and everything in it, also directories without access rights.

    Does nothing but log a warning if a file system is mounted below the directory.
    """
    if mounted := _mounted_below(directory):
        log.warning("%s is not removed: a file system is mounted at %s", directory, mounted)
        return
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():  # a container removed access rights, or the kernel did (work directory of an overlay)
        for parent, names, _ in os.walk(directory):
            for name in names:
                _make_accessible(os.path.join(parent, name))
        shutil.rmtree(directory, ignore_errors=True)


def _make_accessible(path: str) -> None:
    """Give the agent access to a directory; links are left alone."""
    with contextlib.suppress(OSError):
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{found}", 0o700)
        finally:
            os.close(found)


def _mounted_below(directory: Path) -> str:
    """Return a mount point below a directory, as the kernel writes it, or "" if there is none."""
    prefix = f"{directory.resolve()}/".replace(" ", "\\040")
    with open("/proc/self/mountinfo") as stream:
        return next((place for line in stream if (place := line.split()[4]).startswith(prefix)), "")
