"""Cache of encoded bytes that several readers of the same state share, limited by total size.

The age can be limited too, for values such as events that are no longer requested once all watchers have received
them. Expired values are dropped even if no new values arrive.
"""

from __future__ import annotations

import asyncio

from dray.apiserver.limits import SHARED_BYTES


class EncodedCache:
    """FIFO cache of encoded objects, bounded in bytes."""

    def __init__(self, most: int = SHARED_BYTES, seconds: float | None = None) -> None:
        """`seconds`: minimum age after which a value is dropped, at most twice as late; None: no age limit."""
        self._most = most
        self._seconds = seconds
        self._bytes = 0
        self._kept: dict[object, bytes] = {}
        self._settled = 0  # number of the oldest values that were present at the last check
        self._is_looking = False
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: object, value: bytes) -> None:
        """Store a value under a new key. Drops the oldest values above the size limit."""
        self._kept[key] = value
        self._bytes += len(value)
        while self._bytes > self._most:
            self._forget_oldest()
        if not self._is_looking and self._seconds is not None:
            self._is_looking = True
            asyncio.get_running_loop().call_later(self._seconds, self._look, self._seconds)

    def _look(self, seconds: float) -> None:
        """Drop the values that were present at the last check. Schedules the next check unless the cache is empty."""
        while self._settled > 0:
            self._forget_oldest()
        self._settled = len(self._kept)
        self._is_looking = bool(self._kept)
        if self._is_looking:
            asyncio.get_running_loop().call_later(seconds, self._look, seconds)

    def _forget_oldest(self) -> None:
        self._bytes -= len(self._kept.pop(next(iter(self._kept))))
        self._settled = max(0, self._settled - 1)
