"""Encoded bytes that are kept for the next reader of the same state, bounded by their size rather than their number."""

from __future__ import annotations

from dray.apiserver.limits import SHARED_BYTES


class EncodedCache:
    """Bytes by what they encode, up to a number of bytes; the oldest go first."""

    def __init__(self, most: int = SHARED_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._kept: dict[object, bytes] = {}
        self.get = self._kept.get

    def put(self, key: object, value: bytes) -> None:
        """Keep a value under a new key."""
        self._kept[key] = value
        self._bytes += len(value)
        while self._bytes > self._most:
            oldest = next(iter(self._kept))
            self._bytes -= len(self._kept.pop(oldest))
