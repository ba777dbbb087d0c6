"""Texts of connection errors in the wording of Go's `net`, known to Kubernetes users from probes and kubectl."""

from __future__ import annotations


def not_connected(where: str, error: Exception) -> str:
    """Return the error text for a failed connection to `where` (HOST:PORT).

    The text is worded as by Kubernetes, such as `dial tcp HOST:PORT: i/o timeout`.
    """
    cause = getattr(error, "os_error", error)  # aiohttp wraps the system's error in its own
    if isinstance(cause, TimeoutError):
        return f"dial tcp {where}: i/o timeout"
    if isinstance(cause, ConnectionRefusedError):  # its text is asyncio's, not the system's
        return f"dial tcp {where}: connect: connection refused"
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"dial tcp {where}: connect: {words.lower()}"
