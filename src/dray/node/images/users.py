"""The user of an image: `user[:group]`, as numbers or as names from the image's own passwd and group files."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from dray.node.beneath import open_beneath, open_directory
from dray.node.environment import ConfigProblem

_MOST_BYTES = 1 << 20


def image_user(rootfs: Path, text: str) -> tuple[int, int]:
    """Return the numeric user and group of an image's `User` setting; an empty setting means root.

    Raises `ConfigProblem` if the image's files do not know a name. `text` is USER or USER:GROUP, with names or
    numbers. `rootfs` is the directory of the image's files.
    """
    user, _, group = text.partition(":")
    entry = _entry(rootfs, "etc/passwd", user or "0")
    if not user:
        uid = 0
    elif user.isdecimal():
        uid = int(user)
    elif entry is not None:
        uid = int(entry[2])
    else:
        raise ConfigProblem(f"unable to find user {user}: no matching entries in passwd file")
    return uid, _group(rootfs, group, entry)


def _group(rootfs: Path, group: str, user: list[str] | None) -> int:
    if group.isdecimal():
        return int(group)
    if group:
        entry = _entry(rootfs, "etc/group", group)
        if entry is None:
            raise ConfigProblem(f"unable to find group {group}: no matching entries in group file")
        return int(entry[2])
    return int(user[3]) if user is not None else 0


def _entry(rootfs: Path, file: str, key: str) -> list[str] | None:
    """Return the fields of the line of a passwd or group file that has this name or number, or None.

    `key` is the name or number, `file` a path inside the image.
    """
    for line in _text(rootfs, file).splitlines():
        fields = line.split(":")
        if len(fields) >= 4 and key in (fields[0], fields[2]) and fields[2].isdecimal():
            return fields
    return None


def _text(rootfs: Path, file: str) -> str:
    with contextlib.ExitStack() as closing:
        base = open_directory(str(rootfs))
        closing.callback(os.close, base)
        try:
            found = open_beneath(base, file, rooted=True)
        except OSError:
            return ""
        closing.callback(os.close, found)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            return ""
        with open(f"/proc/self/fd/{found}", "rb") as stream:
            return stream.read(_MOST_BYTES).decode(errors="replace")
