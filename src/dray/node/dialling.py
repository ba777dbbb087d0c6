"""Why no connection came about, in the words of Go's `net`, which users of Kubernetes know from probes and kubectl."""

from __future__ import annotations


def not_connected(where: str, error: Exception) -> str:
    """What went wrong on the way to `where`, a host and a port."""
    cause = getattr(error, "os_error", error)  # aiohttp puts its own error around the system's
    if isinstance(cause, TimeoutError):
        return f"dial tcp {where}: i/o timeout"
    if isinstance(cause, ConnectionRefusedError):  # whose text is asyncio's
        return f"dial tcp {where}: connect: connection refused"
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return f"dial tcp {where}: connect: {words.lower()}"
