"""Size limits of emptyDir volumes: measure at intervals how much a volume holds and report when that exceeds its
limit.

A file counts with the blocks that it occupies, divided by its number of hard links. Counting runs in a thread, in
short turns with pauses of the same length, so that a volume with a million files delays neither the event loop nor
the interpreter. It stops as soon as the limit is exceeded. Links are not followed, and files deeper than the longest
path are left out, as in `du` and the kubelet.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from dray.api.quantity import Quantity
from dray.api.types.core import Pod
from dray.client import Clock

TURN_SECONDS = 0.02  # length of one counting turn
CRITICAL = 2_000_000_000  # pods of this priority and above are not evicted, as in Kubernetes
_LONGEST_PATH = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def size_limits(pod: Pod) -> dict[str, str]:
    """Return the size limits that a node enforces for a pod, by volume name. Critical pods have none.

    Limits are quantities such as "1Gi". Volumes without a limit are left out.
    """
    if (pod.spec.priority or 0) >= CRITICAL:
        return {}
    volumes = ((volume.name, volume.emptyDir) for volume in pod.spec.volumes)
    return {name: source.sizeLimit for name, source in volumes if source is not None and source.sizeLimit}


async def exceeded(pod: Pod, directory: Path, clock: Clock, seconds: float) -> str:
    """Wait until a volume of the pod below `directory` exceeds its limit. Returns the message for the eviction.

    Measures every `seconds` seconds.
    """
    limits = {name: (text, _bytes(text)) for name, text in size_limits(pod).items()}
    while True:
        for name, (text, most) in limits.items():
            if most > 0 and await usage(directory / name, most) > most:
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{text}". '
        await clock.sleep(seconds)


async def usage(directory: Path, enough: int) -> int:
    """Return the number of bytes that a directory occupies. Counting ends early once the number exceeds `enough`.

    The count runs in turns, with pauses as long as the turns.
    """
    counting = VolumeCount(directory, enough)
    try:
        while True:
            took = await asyncio.to_thread(counting.go_on)
            if took is None:
                return counting.total
            await asyncio.sleep(took)
    finally:
        counting.close()


class VolumeCount:
    """A count of a directory's bytes that can be interrupted and continued."""

    def __init__(self, directory: Path, enough: int) -> None:
        self.total = 0
        self._enough = enough
        self._sizes = _sizes(str(directory))
        self._is_over = False

    def go_on(self) -> float | None:
        """Count for one turn. Returns the seconds that the turn took, or None once the count is finished.

        The count is finished after the last file, once it exceeds the limit, or once the object is closed.
        """
        begun = time.monotonic()
        for size in self._sizes:
            self.total += size
            if self.total > self._enough or self._is_over:
                return None
            if (took := time.monotonic() - begun) > TURN_SECONDS:
                return took
        return None

    def close(self) -> None:
        """Stop the count; a turn that still runs in a thread ends at the next file."""
        self._is_over = True


def _sizes(root: str) -> Iterator[int]:
    """Yield the bytes that each file and directory below `root` occupies.

    A file with several links counts in equal shares. Directories that are gone or unreadable are left out.
    """
    left = [""]
    while left:
        path = left.pop()
        try:
            directory = _open(root, path)
        except OSError:
            continue  # the directory is gone or unreadable
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    is_directory = stat.S_ISDIR(found.st_mode)
                    yield found.st_blocks * 512 // (1 if is_directory else max(1, found.st_nlink))
                    if is_directory and len(path) + len(entry.name) < _LONGEST_PATH:
                        left.append(f"{path}/{entry.name}")
        finally:
            os.close(directory)


def _open(root: str, path: str) -> int:
    """Open a directory below the root one component at a time, following no links. Returns its descriptor.

    Raises OSError if a component is missing, a link, or no directory.
    """
    here = os.open(root, _DIRECTORY)
    for name in filter(None, path.split("/")):
        try:
            below = os.open(name, _DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _bytes(text: str) -> int:
    return int(Quantity.parse(text).value())
