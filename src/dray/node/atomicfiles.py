"""Files of a volume made from API objects, all replaced at once, in the layout that the kubelet uses.

The files are in a directory named `..<time>`. The link `..data` points to the current directory, and each top-level
name in the volume is a link through `..data`. A reader sees either all old files or all new files. Every path is
opened through `beneath`, so links that a container planted in the volume are not followed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dray.node.beneath import open_beneath, open_directory, write_new

_DATA = "..data"


class FileContent(NamedTuple):
    data: bytes
    mode: int = 0o644


def write_files(directory: Path, files: Mapping[str, FileContent], group: int | None = None) -> bool:
    """Make the volume hold exactly these files, with `group` if given. Returns False if nothing changed.

    `group` is the id of the group that owns the files. Keys of `files` are paths inside the volume.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    base = open_directory(str(directory))
    try:
        if _current(base) == files:
            return False
        name = time.strftime("..%Y_%m_%d_%H_%M_%S.") + secrets.token_hex(5)
        _write(base, name, files, group)
        _point(base, _DATA, name)
        tops = {path.split("/")[0] for path in files}
        for top in tops:
            _point(base, top, f"{_DATA}/{top}")
        _clear(base, {*tops, _DATA, name})
        return True
    finally:
        os.close(base)


def _write(base: int, name: str, files: Mapping[str, FileContent], group: int | None) -> None:
    os.mkdir(name, 0o755, dir_fd=base)
    fresh = open_beneath(base, name)
    try:
        for path, file in files.items():
            write_new(fresh, path, file.data, file.mode)
        os.chmod(f"/proc/self/fd/{fresh}", 0o755)
        if group is not None:
            give_to_group(fresh, group)
    finally:
        os.close(fresh)


def give_to_group(base: int, group: int) -> None:
    """Set the group of a directory (given as a descriptor) and of everything below it."""
    for _, directories, files, here in os.fwalk(".", dir_fd=base, follow_symlinks=False):
        os.chown(here, -1, group)
        for name in (*directories, *files):
            os.chown(name, -1, group, dir_fd=here, follow_symlinks=False)


def _current(base: int) -> dict[str, FileContent] | None:
    """Return the files that the volume holds, or None if its layout is not as `write_files` leaves it.

    `base` is a descriptor of the volume's directory. Keys are paths inside the volume.
    """
    found: dict[str, FileContent] = {}
    try:
        data = open_beneath(base, os.readlink(_DATA, dir_fd=base))
    except OSError:
        return None
    try:
        for parent, _, files, here in os.fwalk(".", dir_fd=data, follow_symlinks=False):
            for name in files:
                found[os.path.normpath(f"{parent}/{name}")] = _read(here, name)
        tops = {path.split("/")[0] for path in found}
        return found if all(os.readlink(top, dir_fd=base) == f"{_DATA}/{top}" for top in tops) else None
    except OSError:
        return None
    finally:
        os.close(data)


def _read(directory: int, name: str) -> FileContent:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with os.fdopen(file, "rb") as stream:
        return FileContent(stream.read(), os.fstat(stream.fileno()).st_mode & 0o777)


def _point(base: int, name: str, target: str) -> None:
    """Make `name` a symbolic link to `target`, replacing whatever has that name.

    `base` is a descriptor of the directory.
    """
    try:
        if os.readlink(name, dir_fd=base) == target:
            return
    except FileNotFoundError:
        pass
    except OSError:
        _remove(base, name)
    temporary = f"..new-{secrets.token_hex(5)}"
    os.symlink(target, temporary, dir_fd=base)
    os.rename(temporary, name, src_dir_fd=base, dst_dir_fd=base)


def _clear(base: int, keep: set[str]) -> None:
    for name in os.listdir(f"/proc/self/fd/{base}"):
        if name not in keep:
            _remove(base, name)


def _remove(base: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=base)
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=base)
