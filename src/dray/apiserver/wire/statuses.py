"""What goes wrong, and what is odd, in no more bytes than clients can be expected to take.

A request can be wrong in thousands of places, and each can quote what it found. What does not fit is left out, and the
answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.errors import ApiError
from dray.apiserver.read.storage import encode

_CUT = " … (cut short)"
_ITEM = 256  # characters of a warning, where all together are too long; as Kubernetes


def status_body(error: ApiError, most: int) -> bytes:
    """The Status of an error, of about that many bytes at most."""
    status = error.status()
    body = encode(status)
    if len(body) <= most:
        return body
    share = most // 4  # a character may take several bytes
    if len(status["message"]) > share:
        status["message"] = status["message"][:share] + _CUT
    details = status.get("details") or {}
    if "causes" in details:
        details["causes"] = _fitting(details["causes"], most // 2)
    return encode(status)


def _fitting(causes: Sequence[Any], most: int) -> list[Any]:
    kept: list[Any] = []
    for cause in causes:
        most -= len(encode(cause))
        if most < 0:
            break
        kept.append(cause)
    return kept


def warning_headers(warnings: Sequence[str], most: int) -> list[tuple[bytes, bytes]]:
    """Warning headers of so many characters together: all, or as many as fit, each cut short."""
    if sum(map(len, warnings)) > most:
        fitting = most // _ITEM
        warnings = [warning if len(warning) <= _ITEM else warning[: _ITEM - 1] + "…" for warning in warnings[:fitting]]
    return [(b"warning", _warning(warning)) for warning in warnings]


def _warning(text: str) -> bytes:
    """A Warning header; what cannot stand in a header is left out of it."""
    clean = "".join(c for c in text if c.isprintable()).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{clean}"'.encode("latin-1", errors="replace")
