"""Opening paths below a directory in such a way that no symbolic link leads out of the directory.

A path is walked one component at a time, and each component is opened without following links. A link found inside is
read and walked in the same way, starting where the link is; an absolute link, or a link that climbs above the start,
is refused. The kernel never gets a path of more than one component, so replacing a file with a link during the walk
has no effect. Uses only the standard library, because `subpaths` runs this module as a program.
"""

from __future__ import annotations

import os
import stat

_MOST_LINKS = 40  # limit of the kernel as well
_HERE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class PathEscape(OSError):
    """A path leads out of the directory that it must stay in. The text names the path."""


def open_directory(path: str) -> int:
    """Open a directory and return its descriptor, the base of a walk. Raises OSError if the path is a link.

    The descriptor is opened with O_PATH; the caller closes it.
    """
    return os.open(path, _HERE | os.O_DIRECTORY)


def open_beneath(base: int, path: str, create: int | None = None, rooted: bool = False) -> int:
    """Open `path` below the directory `base` and return a descriptor (O_PATH).

    Missing directories are created with mode `create` if given. With `rooted`, `base` is treated as the root of a
    file system: absolute links start at `base`, and `..` stops there. Otherwise both raise `PathEscape` when they
    would leave `base`.
    """
    walk = _PathWalk(base, path, create, rooted)
    try:
        return walk.go()
    finally:
        walk.close()


def write_new(base: int, path: str, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, creating missing parent directories. Raises OSError if the file exists.

    Raises PathEscape if the path leads out of `base` or has no file name. `base` is a descriptor of a directory.
    """
    parent, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise PathEscape(f"{path!r} is not the path of a file")
    directory = open_beneath(base, parent, create=0o755)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)


class _PathWalk:
    """Walk from a base directory to a path, as a stack of open descriptors."""

    def __init__(self, base: int, path: str, create: int | None, rooted: bool) -> None:
        if path.startswith("/") and not rooted:
            raise PathEscape(f"{path!r} is not a relative path")
        self._path = path
        self._create = create
        self._rooted = rooted
        self._stack = [os.dup(base)]
        self._left = path.split("/")[::-1]
        self._links = 0

    def go(self) -> int:
        """Walk the whole path. Returns a descriptor of its end.

        Raises PathEscape if the path leads out of the base directory, and OSError if a component cannot be opened.
        """
        while self._left:
            name = self._left.pop()
            if name == "..":
                self._up()
            elif name not in ("", "."):
                self._down(name)
        return self._stack.pop()

    def close(self) -> None:
        for descriptor in self._stack:
            os.close(descriptor)

    def _up(self) -> None:
        if len(self._stack) == 1 and self._rooted:
            return
        if len(self._stack) == 1:
            raise PathEscape(f"{self._path!r} leads out of its volume")
        os.close(self._stack.pop())

    def _down(self, name: str) -> None:
        """Enter the next component; if it is a link, continue with the link's target.

        Raises PathEscape if the link is absolute and the walk is not rooted, or if the path has too many links.
        """
        found = self._open(name)
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            self._stack.append(found)
            return
        try:
            target = os.readlink("", dir_fd=found)
        finally:
            os.close(found)
        self._links += 1
        if target.startswith("/") and self._rooted:
            while len(self._stack) > 1:
                os.close(self._stack.pop())
        elif target.startswith("/"):
            raise PathEscape(f"{self._path!r} leads out of its volume: {name} is a link to {target}")
        if self._links > _MOST_LINKS:
            raise PathEscape(f"{self._path!r}: too many links")
        self._left.extend(target.split("/")[::-1])

    def _open(self, name: str) -> int:
        here = self._stack[-1]
        try:
            return os.open(name, _HERE, dir_fd=here)
        except FileNotFoundError:
            if self._create is None:
                raise
        os.mkdir(name, dir_fd=here)
        made = os.open(name, _HERE | os.O_DIRECTORY, dir_fd=here)
        os.chmod(f"/proc/self/fd/{made}", self._create)
        return made
