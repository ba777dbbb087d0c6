"""Mounts that must exist before a container is built: parts of volumes (`subPath`), and an image with a writable
layer.

bwrap and runc take paths, and a container of the same pod may replace what a path leads to at any moment. So parts of
volumes are opened in a private mount namespace, one component at a time (`beneath`), and bound by descriptor to
places in the attempt's own directory. bwrap or runc then runs in that namespace and gets these places. An image is
mounted there as well, below an empty layer of the attempt. Runs as a separate program, `python -I -S staging.py SPEC
PROGRAM …`, with only the standard library.
"""

from __future__ import annotations

import json
import os
import stat
import sys

MYPY = False
if MYPY:  # the program runs without the package
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

    from dray.node.beneath import open_beneath, open_directory
    from dray.node.runtime import BindMount

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19


def staged(mounts: Iterable[BindMount], image: str, directory: Path) -> tuple[list[str], list[BindMount]]:
    """Return a prefix for bwrap's or runc's command line and the mounts that it shall make. The prefix may be empty.

    If mounts with a subPath or an image must be staged, the prefix runs this module first. An image appears at
    `rootfs` in the attempt's directory. `image` is the directory of the image's files, or "" for none. Raises OSError
    if a directory exists already.
    """
    from dataclasses import replace

    parts: list[dict[str, str]] = []
    found = []
    for mount in mounts:
        if mount.subpath:
            target = str(directory / "subpaths" / str(len(parts)))
            parts.append({"volume": os.path.realpath(mount.source), "path": mount.subpath, "target": target})
            mount = replace(mount, source=target, subpath="", staged=True)
        found.append(mount)
    if not parts and not image:
        return [], found
    if image:
        for name in ("upper", "work", "rootfs"):
            (directory / name).mkdir(mode=0o755)
    (directory / "subpaths").mkdir(mode=0o700)
    (directory / "staging.json").write_text(json.dumps({"directory": str(directory), "image": image, "parts": parts}))
    return [sys.executable, "-I", "-S", __file__, str(directory / "staging.json")], found


def main(spec: str, command: list[str]) -> None:
    with open(spec) as stream:
        wanted = json.load(stream)
    libc = _enter_namespaces()
    for part in wanted["parts"]:
        _bind(libc, part["volume"], part["path"], part["target"])
    if wanted["image"]:
        _overlay(libc, wanted["image"], wanted["directory"])
    os.execvp(command[0], command)


def _overlay(libc: Any, image: str, directory: str) -> None:
    """Mount the image with a writable layer of the attempt on top.

    Uses relative paths and a descriptor, because mount options have no quoting.
    """
    lower = open_directory(image)
    os.chdir(directory)
    options = f"lowerdir=/proc/self/fd/{lower},upperdir=upper,workdir=work" + (",userxattr" if os.geteuid() else "")
    _check(libc.mount(b"overlay", b"rootfs", b"overlay", 0, options.encode()), "mount of the image")
    os.chdir("/")


def _enter_namespaces() -> Any:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as stream:
                stream.write(text)
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "mount /")
    return libc


def _bind(libc: Any, volume: str, path: str, target: str) -> None:
    base = open_directory(volume)
    found = open_beneath(base, path)
    if stat.S_ISDIR(os.fstat(found).st_mode):
        os.mkdir(target, 0o700)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    source = f"/proc/self/fd/{found}".encode()
    _check(libc.mount(source, target.encode(), None, _MS_BIND | _MS_REC, None), f"mount {path}")
    os.close(found)
    os.close(base)


def _check(result: int, what: str) -> None:
    import ctypes

    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # -I leaves this directory out
    from beneath import open_beneath, open_directory  # type: ignore[import-not-found,no-redef]  # beside this file

    main(sys.argv[1], sys.argv[2:])
