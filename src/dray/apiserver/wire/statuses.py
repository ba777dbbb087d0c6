"""Error responses and warning headers, limited to a size that clients can handle.

A request can have thousands of errors, each quoting its content. Excess parts are omitted, and the response says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.api.errors import ApiError
from dray.apiserver.read.storage import encode

_CUT = " … (cut short)"
_ITEM = 256  # characters of a warning if all together are too long, as in Kubernetes


def status_body(error: ApiError, most: int) -> bytes:
    """Return the encoded Status of an error, limited to about `most` bytes.

    If it is longer, a long message is cut and the last causes are left out.
    """
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
    """Return the first causes that together fit into `most` bytes."""
    kept: list[Any] = []
    for cause in causes:
        most -= len(encode(cause))
        if most < 0:
            break
        kept.append(cause)
    return kept


def warning_headers(warnings: Sequence[str], most: int) -> list[tuple[bytes, bytes]]:
    """Return Warning headers, as pairs of name and value.

    If the warnings have more than `most` characters together, each is shortened and only as many as fit are returned.
    """
    if sum(map(len, warnings)) > most:
        fitting = most // _ITEM
        warnings = [warning if len(warning) <= _ITEM else warning[: _ITEM - 1] + "…" for warning in warnings[:fitting]]
    return [(b"warning", _warning(warning)) for warning in warnings]


def _warning(text: str) -> bytes:
    """Return a Warning header without characters that are not allowed there."""
    clean = "".join(c for c in text if c.isprintable()).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{clean}"'.encode("latin-1", errors="replace")
