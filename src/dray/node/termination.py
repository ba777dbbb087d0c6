"""A container's termination message: a file that it wrote, or the last lines of its log.

The container may write the file, so it is opened without following links and read only up to a limit.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

MESSAGE_FILE = "termination-log"
_LINES = 80
_LOG_BYTES = 2048
_LOG_PREFIX_BYTES = 60  # of a log line: time, stream and kind


def termination_message(directory: Path, task: dict[str, Any], code: int) -> str:
    """Return the termination message of an ended attempt, or "" if it has none.

    If the container wrote none and failed, the end of its log is used if the container asks for that. `code` is the
    exit code.
    """
    wanted = task.get("message")  # missing in tasks that an earlier version started
    if not wanted:
        return ""
    data = _read(directory / MESSAGE_FILE, 0, wanted["limit"])
    if not data and code and wanted["from_log"]:
        data = _last_lines(directory / "log")[-min(_LOG_BYTES, wanted["limit"]) :]
    return data.decode(errors="replace")


def last_line(directory: Path) -> str:
    """Return the last line of an attempt's log.

    Returns "" for an empty log.
    """
    return _last_lines(directory / "log").decode(errors="replace").rstrip().rpartition("\n")[2]


def _last_lines(file: Path) -> bytes:
    size = _LOG_BYTES + _LINES * _LOG_PREFIX_BYTES
    lines = _read(file, -size, size).split(b"\n")[-_LINES - 1 :]
    return b"\n".join(line.split(b" ", 3)[3] for line in lines if line.count(b" ") >= 3) + b"\n"


def _read(file: Path, start: int, length: int) -> bytes:
    """Return part of a regular file, from its beginning or (negative start) its end; b"" for other or missing files.

    At most `length` bytes are returned.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            return b""
        stream.seek(start if start >= 0 else max(0, found.st_size + start))
        return stream.read(length)
