"""Plan of the file system of a container without image: the host's, read-only, with fresh /tmp, /run and /dev. Pure.

Every mount of a container needs an existing place. If the host has none, the nearest existing directory is rebuilt as
a tmpfs from its own entries, so that a new entry can be added. Left out: carrying out the plan, which bwrap and runc
do in different ways.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_MOST_LINKS = 40
FRESH = ("/tmp", "/run")  # writable and empty in every container
OWN = ("/proc", "/dev", "/sys")  # created by bwrap or runc for each container
PROGRAMS = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
"""Where Python and dray are installed: visible in containers also if that is below /tmp, so that drivers can run
there.
"""
BIND = "bind"  # of a host path, read-only
TMPFS = "tmpfs"
SYMLINK = "symlink"  # `source` is where it points


class RootfsStep(NamedTuple):
    kind: str
    target: str
    source: str = ""


def place(target: str, image: str = "") -> str:
    """Return the path of a mount with symbolic links followed as inside the container (such as /var/run).

    `image` is the root directory of the container's image; without an image the host's links are followed.
    """
    return place_in(image, target) if image else os.path.realpath(target)


def place_in(root: str, target: str) -> str:
    """Return a path inside an image with the image's own symbolic links followed. Raises OSError for too many links.

    `root` is the directory of the image's files. The result is absolute, as seen in the container.
    """
    here, left, links = "", target.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        try:
            link = os.readlink(f"{root}{here}/{name}")
        except OSError:
            here = f"{here}/{name}"
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"{target}: too many links")
        here = "" if link.startswith("/") else here
        left.extend(link.split("/")[::-1])
    return here or "/"


def hidden_programs(paths: Iterable[str] = PROGRAMS) -> list[str]:
    """Return the paths that the fresh directories of a container would hide.

    The result is sorted.
    """
    return [path for path in sorted({*paths}) if any(PurePosixPath(path).is_relative_to(fresh) for fresh in FRESH)]


def plan(targets: Iterable[str]) -> list[RootfsStep]:
    """Return the steps, in order, that build the file system with a place for a mount at each target.

    `targets` are absolute paths of mounts.
    """
    steps = [*_copies("/", (*FRESH, *OWN)), *(RootfsStep(TMPFS, path) for path in FRESH)]
    steps += [RootfsStep(BIND, path, path) for path in hidden_programs()]
    opened: set[str] = set()
    for target in sorted(map(place, targets)):
        parent = _last_existing(target)
        if parent != "/" and parent not in opened and not _is_made(parent):
            opened.add(parent)
            steps += [RootfsStep(TMPFS, parent), *_copies(parent)]
    return steps


def _copies(directory: str, without: Iterable[str] = ()) -> Iterable[RootfsStep]:
    """Yield steps that bind each entry of a host directory or copy its symbolic link, except the paths in `without`.

    Raises OSError if the directory cannot be read. Entries other than files, directories and links are left out.
    """
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.path in without:
                continue
            if entry.is_symlink():
                yield RootfsStep(SYMLINK, entry.path, os.readlink(entry.path))
            elif entry.is_dir() or entry.is_file():
                yield RootfsStep(BIND, entry.path, entry.path)


def _last_existing(target: str) -> str:
    """Return the directory to rebuild for a mount: its nearest existing ancestor, or "/" if the target exists."""
    if os.path.lexists(target):
        return "/"
    path = os.path.dirname(target)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _is_made(path: str) -> bool:
    """Whether a directory is created fresh for each container anyway."""
    return any(PurePosixPath(path).is_relative_to(made) for made in (*FRESH, *OWN))
