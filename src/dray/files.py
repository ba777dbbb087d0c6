"""Reads files that somebody else may have created: keys, tokens, configurations, images, records of an earlier run.

A FIFO in the place of a key would block its reader for ever, a device has no end, and a thread that reads them cannot
be interrupted. So only regular files are opened, without blocking, and only up to a size limit. Every problem raises
an OSError that names the file and the reason. Left out: files that a command reads for its user, which may be pipes.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, cast

MOST_BYTES = 16 << 20  # for keys, certificates, tokens, configurations and records
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | Path, most: int = MOST_BYTES) -> BinaryIO:
    """Open a regular file of at most `most` bytes; links are followed. Raises OSError for other or larger files."""
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
    """Return the bytes of a regular file. Raises OSError for other files, or for more than `most` bytes."""
    data = bytearray()
    with open_regular(path, most) as stream:
        while chunk := stream.read(_CHUNK):  # `read(most)` would allocate the maximum
            data += chunk
            if len(data) > most:
                raise too_large(path, most)
    return bytes(data)


def read_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file. Raises OSError and UnicodeDecodeError."""
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
