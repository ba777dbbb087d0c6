"""Reading files that somebody else may have put there: keys, tokens, configurations, images, notes of an earlier run.

A FIFO in the place of a key keeps its reader waiting for ever, a device has no end, and neither can be interrupted in a
thread. So only regular files are opened, without waiting, and only so much is read. What is wrong is told as an OSError
that names the file and the reason. Left out: what commands read once for their user, who may well give them a pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, cast

MOST_BYTES = 16 << 20  # of keys, certificates, tokens, configurations and notes
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | Path, most: int = MOST_BYTES) -> BinaryIO:
    """Open a regular file of so many bytes at most; links are followed. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise OSError(errno.EINVAL, f"expected a regular file, found {kind}", str(path))
        if found.st_size > most:
            raise too_large(path, most)
        return cast(BinaryIO, os.fdopen(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file, so many at most, also if it grows meanwhile. Raises OSError."""
    data = bytearray()
    with open_regular(path, most) as stream:
        while chunk := stream.read(_CHUNK):  # `read(most)` would make room for all that there may be
            data += chunk
            if len(data) > most:
                raise too_large(path, most)
    return bytes(data)


def read_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file. Raises OSError and UnicodeDecodeError."""
    return read_regular(path, most).decode()


class YamlError(ValueError):
    """A text that is not YAML. The message is one line: where the mistake is, and what was expected."""


def yaml_documents(text: str | bytes) -> list[Any]:
    """Parse the documents of a YAML text. Raises YamlError."""
    import yaml  # takes a while to import

    try:
        return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        why = ", ".join(filter(None, (error.context, error.problem)))
        raise YamlError(f"not valid YAML: {where}{why}") from error
    except yaml.YAMLError as error:
        raise YamlError(f"not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise YamlError("not valid YAML: nested too deeply") from error


def yaml_document(text: str | bytes) -> Any:
    """Parse a YAML text of one document; an empty text gives None. Raises YamlError."""
    found = yaml_documents(text)
    if len(found) > 1:
        raise YamlError(f"expected one YAML document, found {len(found)}")
    return found[0] if found else None


def reason(error: Exception) -> str:
    """Return why a file cannot be used, without its name and the error number."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def too_large(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
